"""Request handlers: a module for each family of APIs, imported with its first request.

Every handler is a `groupsdk.broker.server.call.Handler`: `call` is the request in flight, with the node, the version
and the principal, and `request` is the decoded request. It returns the response, or steps that return it, or None if
the response is sent later by `Call.answer`. The handler checks authorization; a ClusterError, or any other error with
an `error_code`, that it raises is answered as that code.
"""
