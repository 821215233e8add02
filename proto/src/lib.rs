//! Protobuf codec and well-known messages for trirpc.
