//! Runtime-neutral async call layer of trirpc.
