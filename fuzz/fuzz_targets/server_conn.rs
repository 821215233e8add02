#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trirpc_fuzz::server_conn(data));
