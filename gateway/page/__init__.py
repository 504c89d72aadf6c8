"""A page for browsers: what is wrong, why a view is stale, what a refresh costs, who reads it. It needs the extra
`page`."""
