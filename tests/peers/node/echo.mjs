// What server and client share: the service as @grpc/proto-loader makes it of echo.proto, and google.rpc.Status.
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import protobuf from "protobufjs";

const definition = loadSync("echo.proto", { includeDirs: [import.meta.dirname], longs: Number, defaults: true });
export const { Echo } = grpc.loadPackageDefinition(definition).trirpc.test.v1;
export const SERVICE = "trirpc.test.v1.Echo";
export { grpc };

/** google.rpc.Status, the value of grpc-status-details-bin. */
export const RpcStatus = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message FailDetail { string reason = 1; int32 number = 2; }
`, { keepCase: true }).root;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** The value of `--name value`, or `otherwise`. */
export function option(name, otherwise) {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
}
