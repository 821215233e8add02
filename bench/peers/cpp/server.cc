// cpp-server --addr A: `bench.Echo` by gRPC C++, callback interface, unary only.
#include <grpcpp/grpcpp.h>

#include <string>

#include "echo.grpc.pb.h"

namespace {

class Echo final : public bench::Echo::CallbackService {
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context, const bench::EchoMsg* request,
                                  bench::EchoMsg* response) override {
    response->set_payload(request->payload());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string addr = argv[argc - 1];
  Echo echo;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(addr, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.RegisterService(&echo);
  builder.BuildAndStart()->Wait();
}
