"""Other libraries' data and models: a module for each library, imported only when asked for."""
