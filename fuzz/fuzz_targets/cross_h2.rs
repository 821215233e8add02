#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trirpc_fuzz::cross_h2(data));
