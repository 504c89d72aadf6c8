"""The protocol as bytes: frames, HTTP and Thrift. Does no I/O."""
