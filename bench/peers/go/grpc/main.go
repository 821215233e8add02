// grpc-peer is `bench.Echo` by grpc-go: grpc-peer server|client, with the arguments of `trirpc-bench serve` and `load`.
//
// It is built against the version in go.mod and, with the tag debian, against the one that Debian 12 has.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"

	"trirpc.test/bench/loop"
)

const maxMessage = 64 << 20

type service interface{}

func unary(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	m := new(message)
	if err := decode(m); err != nil {
		return nil, err
	}
	return m, nil
}

func bidi(_ interface{}, stream grpc.ServerStream) error {
	for {
		m := new(message)
		if err := stream.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}

func serverStream(_ interface{}, stream grpc.ServerStream) error {
	m := new(message)
	if err := stream.RecvMsg(m); err != nil {
		return err
	}
	for count := binary.BigEndian.Uint32(m.Value); count > 0; count-- {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

var description = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*service)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Bidi", Handler: bidi, ServerStreams: true, ClientStreams: true},
		{StreamName: "Sstream", Handler: serverStream, ServerStreams: true},
	},
}

func serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(10000))
	server.RegisterService(&description, struct{}{})
	return server.Serve(listener)
}

func callUnary(connection *grpc.ClientConn, request *message) (int, error) {
	answer := new(message)
	err := connection.Invoke(context.Background(), "/bench.Echo/Unary", request, answer)
	if err == nil && len(answer.Value) != len(request.Value) {
		err = fmt.Errorf("%d bytes came back of %d", len(answer.Value), len(request.Value))
	}
	return 1, err
}

func callBidi(connection *grpc.ClientConn, request *message, messages int) (int, error) {
	stream, err := connection.NewStream(context.Background(), &description.Streams[0], "/bench.Echo/Bidi")
	if err != nil {
		return 0, err
	}
	for i := 0; i < messages; i++ {
		if err := stream.SendMsg(request); err != nil {
			return 0, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	received := 0
	for {
		if err := stream.RecvMsg(new(message)); err == io.EOF {
			break
		} else if err != nil {
			return 0, err
		}
		received++
	}
	if received != messages {
		return 0, fmt.Errorf("%d messages came back of %d", received, messages)
	}
	return received, nil
}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "client" {
		log.Fatal(serve(os.Args[len(os.Args)-1]))
	}
	o := loop.Parse(os.Args[2:])
	var connections []*grpc.ClientConn
	for i := 0; i < o.Conns; i++ {
		connection, err := grpc.Dial(o.Addr, plaintext, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			log.Fatal(err)
		}
		connections = append(connections, connection)
	}
	request := &message{Value: o.Message()}
	loop.Run("grpc-go "+grpc.Version, o, func(at int) (int, error) {
		if o.Mode == "unary" {
			return callUnary(connections[at], request)
		}
		return callBidi(connections[at], request, o.Msgs)
	})
}
