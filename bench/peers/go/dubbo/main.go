// dubbo-peer is `bench.Echo` by dubbo-go over Triple, with the framing of gRPC, connected directly: dubbo-peer
// server|client, with the arguments of `trirpc-bench serve` and `load`; unary only.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/dubbogo/gost/log/logger"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/triple"
	tri "dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"
	"dubbo.apache.org/dubbo-go/v3/server"

	// What an application gets from dubbo.apache.org/dubbo-go/v3/imports, less registries and the like.
	_ "dubbo.apache.org/dubbo-go/v3/cluster/cluster/failover"
	_ "dubbo.apache.org/dubbo-go/v3/cluster/loadbalance/random"
	_ "dubbo.apache.org/dubbo-go/v3/filter/accesslog"
	_ "dubbo.apache.org/dubbo-go/v3/filter/echo"
	_ "dubbo.apache.org/dubbo-go/v3/filter/exec_limit"
	_ "dubbo.apache.org/dubbo-go/v3/filter/generic"
	_ "dubbo.apache.org/dubbo-go/v3/filter/graceful_shutdown"
	_ "dubbo.apache.org/dubbo-go/v3/filter/token"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps/limiter"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps/strategy"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/triple/health"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/triple/reflection"
	_ "dubbo.apache.org/dubbo-go/v3/proxy/proxy_factory"

	"trirpc.test/bench/loop"
)

const name = "bench.Echo"

// message is EchoMsg of bench/proto/echo.proto: bytes in field 1. What is well known needs no generated code.
type message = wrapperspb.BytesValue

// EchoService is exported because dubbo-go wants it so.
type EchoService struct{}

// Unary answers with what came.
func (*EchoService) Unary(_ context.Context, request *message) (*message, error) {
	return request, nil
}

func info() *server.ServiceInfo {
	return &server.ServiceInfo{
		InterfaceName: name,
		ServiceType:   (*EchoService)(nil),
		Methods: []server.MethodInfo{{
			Name:        "Unary",
			Type:        constant.CallUnary,
			ReqInitFunc: func() any { return new(message) },
			MethodFunc: func(ctx context.Context, args []any, handler any) (any, error) {
				answer, err := handler.(*EchoService).Unary(ctx, args[0].(*message))
				if err != nil {
					return nil, err
				}
				return tri.NewResponse(answer), nil
			},
		}},
	}
}

func serve(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(server.WithServerNotRegister(), server.WithServerProtocol(
		protocol.WithIp(host), protocol.WithPort(number), protocol.WithTriple(triple.WithMaxServerRecvMsgSize(strconv.Itoa(64<<20)))))
	if err != nil {
		return err
	}
	if err := s.Register(&EchoService{}, info()); err != nil {
		return err
	}
	if err := s.Serve(); err != nil {
		return err
	}
	select {}
}

func main() {
	logger.SetLoggerLevel("fatal") // even "error" prints a stack for every failed call
	if len(os.Args) < 2 || os.Args[1] != "client" {
		log.Fatal(serve(os.Args[len(os.Args)-1]))
	}
	o := loop.Parse(os.Args[2:])
	var connections []*client.Connection
	for i := 0; i < o.Conns; i++ {
		c, err := client.NewClient(client.WithClientURL("tri://"+o.Addr), client.WithClientNoCheck())
		if err != nil {
			log.Fatal(err)
		}
		info := client.ClientInfo{InterfaceName: name, MethodNames: []string{"Unary"}, ConnectionInjectFunc: func(any, *client.Connection) {}}
		connection, err := c.DialWithInfo(name, &info, client.WithRequestTimeout(20*time.Second))
		if err != nil {
			log.Fatal(err)
		}
		connections = append(connections, connection)
	}
	request := &message{Value: o.Message()}
	loop.Run("dubbo-go", o, func(at int) (int, error) {
		answer := new(message)
		err := connections[at].CallUnary(context.Background(), []any{request}, answer, "Unary")
		if err == nil && len(answer.Value) != len(request.Value) {
			err = fmt.Errorf("%d bytes came back of %d", len(answer.Value), len(request.Value))
		}
		return 1, err
	})
}
