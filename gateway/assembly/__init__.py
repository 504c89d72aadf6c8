"""Builds the whole gateway from its settings, from the bottom up. Nothing else knows all layers.

Each module builds one area of the gateway. What others need of it is a frozen value, which later modules take. They are
in this order, and each imports only those before it:

`at_spark`: the gateway's own sessions at Spark. `records`: what is kept of clients' statements. `views`: the catalog,
what its views read, and their versions. `refreshes`: refreshes, and what begins them. `rewriting`: which queries views
may answer. `answers`: the gateway's own statements and catalog tables. `routing`: the way of each statement.
`in_memory`: views whose rows are in memory. `clients`: sessions and logins. `listening`: the ports for clients.
`one_gateway`: all of these together. `reporting` and `browsers`: what shows them to operators. `doors`: one of several
gateways, which has another whole gateway for each of its terms.
"""
