//! Test harness of trirpc.
