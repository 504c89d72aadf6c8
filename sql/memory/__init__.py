"""Tables in the gateway's memory: the texts that load them from Spark, and what is known of their columns."""
