"""Who calls the API: a token of an agent client, or a person with a web session. One way to a file."""
