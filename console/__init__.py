"""The reviewers' console and the operators' desk: pages made on the server, over the use cases that the api serves."""
