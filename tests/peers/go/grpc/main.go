// grpc-peer is a grpc-go server and client of the Echo service.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"trirpc.test/peers/cases"
	"trirpc.test/peers/echo"
	"trirpc.test/peers/gen/echopb"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "client" {
		addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
		flag.Parse()
		log.Fatal(serve(*addr))
	}
	o := cases.Parse(os.Args[2:])
	cc, err := grpc.NewClient("passthrough:///"+o.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(cases.Run(client{cc: cc, e: echopb.NewEchoClient(cc)}, o, cases.Traits{ASCIIOnly: 13}))
}

func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// Dubbo clients ping every 10 s; the default policy would end their connection.
	s := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	echopb.RegisterEchoServer(s, server{})
	h := health.NewServer()
	h.SetServingStatus(echo.Name, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s, h)
	echo.Listening(l.Addr())
	return s.Serve(l)
}

type server struct{ echopb.UnimplementedEchoServer }

func (server) Say(_ context.Context, r *echopb.SayRequest) (*echopb.SayReply, error) {
	return echo.Say(r), nil
}

func (server) Collect(s grpc.ClientStreamingServer[echopb.SayRequest, echopb.CollectReply]) error {
	var c echo.Collector
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(c.Reply())
		}
		if err != nil {
			return err
		}
		c.Add(m)
	}
}

func (server) Expand(r *echopb.ExpandRequest, s grpc.ServerStreamingServer[echopb.SayReply]) error {
	if err := echo.Expand(s.Context(), r, s.Send); err != nil {
		return err
	}
	return status.Error(codes.Code(r.EndCode), r.EndMessage)
}

func (server) Chat(s grpc.BidiStreamingServer[echopb.SayRequest, echopb.SayReply]) error {
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, ok := echo.ChatFailure(m); ok {
			return status.Error(echo.ChatFailCode, text)
		}
		if err := s.Send(echo.Say(m)); err != nil {
			return err
		}
	}
}

func (server) Fail(_ context.Context, r *echopb.FailRequest) (*echopb.SayReply, error) {
	if r.Code == 0 {
		return &echopb.SayReply{}, nil
	}
	p := status.New(codes.Code(r.Code), r.Message).Proto()
	p.Details = r.Details
	return nil, status.FromProto(p).Err()
}

func (server) Sleep(ctx context.Context, r *echopb.SleepRequest) (*echopb.SayReply, error) {
	m, err := echo.Sleep(ctx, r)
	return m, status.FromContextError(err).Err()
}

func (server) Meta(ctx context.Context, r *echopb.MetaRequest) (*echopb.MetaReply, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	m, head, trail := echo.Meta(r, md, func(s string) []byte { return []byte(s) })
	return m, errors.Join(grpc.SetHeader(ctx, head), grpc.SetTrailer(ctx, trail))
}

type client struct {
	cc   *grpc.ClientConn
	e    echopb.EchoClient
	opts []grpc.CallOption
}

func (c client) Compressed() cases.Client {
	c.opts = append(c.opts, grpc.UseCompressor(gzip.Name))
	return c
}

func (c client) Say(ctx context.Context, r *echopb.SayRequest) (*echopb.SayReply, error) {
	return c.e.Say(ctx, r, c.opts...)
}

func (c client) Collect(ctx context.Context, rs []*echopb.SayRequest) (*echopb.CollectReply, error) {
	s, err := c.e.Collect(ctx, c.opts...)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if err := s.Send(r); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return s.CloseAndRecv()
}

func (c client) Expand(ctx context.Context, r *echopb.ExpandRequest, f func(*echopb.SayReply)) error {
	s, err := c.e.Expand(ctx, r, c.opts...)
	if err != nil {
		return err
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(m)
	}
}

func (c client) Chat(ctx context.Context) (cases.Chat, error) { return c.e.Chat(ctx, c.opts...) }

func (c client) Fail(ctx context.Context, r *echopb.FailRequest) (*echopb.SayReply, error) {
	return c.e.Fail(ctx, r)
}

func (c client) Sleep(ctx context.Context, r *echopb.SleepRequest) (*echopb.SayReply, error) {
	return c.e.Sleep(ctx, r)
}

func (c client) Meta(ctx context.Context, md cases.MD, r *echopb.MetaRequest) (*echopb.MetaReply, cases.MD, cases.MD, error) {
	var head, trail metadata.MD
	m, err := c.e.Meta(metadata.NewOutgoingContext(ctx, metadata.MD(md)), r, grpc.Header(&head), grpc.Trailer(&trail))
	return m, cases.MD(head), cases.MD(trail), err
}

func (c client) Unknown(ctx context.Context, service, method string) error {
	return c.cc.Invoke(ctx, "/"+service+"/"+method, &echopb.SayRequest{}, &echopb.SayReply{})
}

func (c client) Health(ctx context.Context, service string) (int32, error) {
	r, err := healthpb.NewHealthClient(c.cc).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	return int32(r.GetStatus()), err
}

func (c client) Watch(ctx context.Context, service string) (int32, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := healthpb.NewHealthClient(c.cc).Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return 0, err
	}
	r, err := s.Recv()
	return int32(r.GetStatus()), err
}

func (c client) Status(err error) cases.Status {
	s := status.Convert(err)
	return cases.Status{Code: uint32(s.Code()), Message: s.Message(), Details: s.Proto().GetDetails()}
}
