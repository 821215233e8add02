#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trirpc_fuzz::client_conn(data));
