"""One module for each table format. `table_format` says what each answers, `known_formats` lists them."""
