"""The Echo service and gRPC health on grpcio: server.py [--addr HOST:PORT].

Prints the address it listens on, and `dropped Sleep` for a Sleep that was cancelled. The rules of each method are in
echo.proto.
"""
import argparse
import time
from concurrent import futures

import echo_pb2
import echo_pb2_grpc
import grpc
from google.rpc import status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

CODES = {code.value[0]: code for code in grpc.StatusCode}


def reply(request):
    payload = bytes(request.reply_size) if request.reply_size else request.payload
    return echo_pb2.SayReply(text="echo:" + request.text, payload=payload, sequence_id=request.sequence_id)


class Echo(echo_pb2_grpc.EchoServicer):
    def Say(self, request, context):
        return reply(request)

    def Collect(self, requests, context):
        texts, size = [], 0
        for request in requests:
            texts.append(request.text)
            size += len(request.payload)
        return echo_pb2.CollectReply(count=len(texts), payload_bytes=size, texts=",".join(texts))

    def Expand(self, request, context):
        for i in range(request.count):
            if i and request.interval_ms:
                time.sleep(request.interval_ms / 1000)
            if not context.is_active():
                return
            yield echo_pb2.SayReply(text=f"expand:{i}", sequence_id=i, payload=bytes(request.size))
        if request.end_code:
            context.abort(CODES[request.end_code], request.end_message)

    def Chat(self, requests, context):
        for request in requests:
            if request.text.startswith("fail:"):
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, request.text[len("fail:"):])
            yield reply(request)

    def Fail(self, request, context):
        if request.code == 0:
            return echo_pb2.SayReply()
        if request.details:
            status = status_pb2.Status(code=request.code, message=request.message, details=request.details)
            context.abort_with_status(rpc_status.to_status(status))
        context.abort(CODES[request.code], request.message)

    def Sleep(self, request, context):
        end = time.monotonic() + request.millis / 1000
        while context.is_active() and (left := end - time.monotonic()) > 0:
            time.sleep(min(0.01, left))
        if not context.is_active():
            print("dropped Sleep", flush=True)
        return echo_pb2.SayReply(text="slept")

    def Meta(self, request, context):
        seen, head, trail = {}, [], []
        for key, value in context.invocation_metadata():
            seen.setdefault(key, []).append(value)
            if key.startswith("x-echo-"):
                rest = key.removeprefix("x-echo-")
                head.append(("x-head-" + rest, value))
                trail.append(("x-trail-" + rest, value))
        context.send_initial_metadata(head)
        context.set_trailing_metadata(trail)
        answer = echo_pb2.MetaReply(payload=bytes(request.reply_size))
        for key in sorted(seen):
            entry = answer.seen.add(key=key)
            (entry.bin_values if key.endswith("-bin") else entry.values).extend(seen[key])
        return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--addr", default="127.0.0.1:0")
    host, _ = (addr := parser.parse_args().addr).rsplit(":", 1)

    # More threads than the calls in flight of any case, so that no case measures the pool.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=128))
    echo_pb2_grpc.add_EchoServicer_to_server(Echo(), server)
    checks = health.HealthServicer()
    for service in ("", echo_pb2.DESCRIPTOR.services_by_name["Echo"].full_name):
        checks.set(service, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    port = server.add_insecure_port(addr)
    server.start()
    print(f"listening on {host}:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
