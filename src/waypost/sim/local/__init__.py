"""One host: applications, remote readers and bulk clients on a node with a model beside it."""
