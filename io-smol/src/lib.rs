//! smol sockets for trirpc.
