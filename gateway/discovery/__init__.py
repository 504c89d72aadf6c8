"""ZooKeeper: clients find gateways there, and gateways find out sooner that their leader was lost."""
