//! build.rs code generator for trirpc services.
