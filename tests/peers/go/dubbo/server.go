package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dubbo.apache.org/dubbo-go/v3/common"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/triple"
	tri "dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"
	"dubbo.apache.org/dubbo-go/v3/server"

	"trirpc.test/peers/echo"
	"trirpc.test/peers/gen/echopb"
)

// serve says where it listens as soon as a connection is accepted: dubbo-go
// tells nobody, and does not fail when the port is taken.
func serve(addr string) error {
	l, err := net.Listen("tcp", addr) // dubbo-go cannot pick a port itself
	if err != nil {
		return err
	}
	at := l.Addr().(*net.TCPAddr)
	l.Close()
	srv, err := server.NewServer(server.WithServerNotRegister(), server.WithServerProtocol(
		protocol.WithIp(at.IP.String()), protocol.WithPort(at.Port), protocol.WithTriple(triple.WithMaxServerRecvMsgSize(strconv.Itoa(4<<20)))))
	if err != nil {
		return err
	}
	if err := srv.Register(&EchoService{}, serviceInfo()); err != nil {
		return err
	}
	go func() {
		for {
			time.Sleep(20 * time.Millisecond)
			if c, err := net.Dial("tcp", at.String()); err == nil {
				c.Close()
				echo.Listening(at)
				return
			}
		}
	}()
	if err := srv.Serve(); err != nil {
		log.Fatal(err)
	}
	select {}
}

// EchoService is exported because dubbo-go wants it so.
type EchoService struct{}

func fault(code uint32, text string) error { return tri.NewError(tri.Code(code), errors.New(text)) }

func (*EchoService) Say(_ context.Context, r *echopb.SayRequest) (*echopb.SayReply, error) {
	return echo.Say(r), nil
}

func (*EchoService) Collect(_ context.Context, s *tri.ClientStream) (*echopb.CollectReply, error) {
	var c echo.Collector
	for s.Receive(&echopb.SayRequest{}) {
		c.Add(s.Msg().(*echopb.SayRequest))
	}
	return c.Reply(), s.Err()
}

func (*EchoService) Expand(ctx context.Context, r *echopb.ExpandRequest, s *tri.ServerStream) error {
	if err := echo.Expand(ctx, r, func(m *echopb.SayReply) error { return s.Send(m) }); err != nil {
		return err
	}
	if r.EndCode != 0 {
		return fault(r.EndCode, r.EndMessage)
	}
	return nil
}

func (*EchoService) Chat(_ context.Context, s *tri.BidiStream) error {
	for {
		m := new(echopb.SayRequest)
		if err := s.Receive(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if text, ok := echo.ChatFailure(m); ok {
			return fault(echo.ChatFailCode, text)
		}
		if err := s.Send(echo.Say(m)); err != nil {
			return err
		}
	}
}

// Fail with code 17 is a plain Go error, which dubbo-go gives that code itself.
func (*EchoService) Fail(_ context.Context, r *echopb.FailRequest) (*echopb.SayReply, error) {
	switch r.Code {
	case 0:
		return &echopb.SayReply{}, nil
	case 17:
		return nil, errors.New(r.Message)
	}
	e := tri.NewError(tri.Code(r.Code), errors.New(r.Message))
	for _, a := range r.Details {
		d, err := tri.NewErrorDetail(a)
		if err != nil {
			return nil, err
		}
		e.AddDetail(d)
	}
	return nil, e
}

func (*EchoService) Sleep(ctx context.Context, r *echopb.SleepRequest) (*echopb.SayReply, error) {
	m, err := echo.Sleep(ctx, r)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, tri.NewError(tri.CodeDeadlineExceeded, err)
	case err != nil:
		return nil, tri.NewError(tri.CodeCanceled, err)
	}
	return m, nil
}

func (*EchoService) Meta(ctx context.Context, r *echopb.MetaRequest) (*echopb.MetaReply, error) {
	in, _ := tri.FromIncomingContext(ctx)
	m, head, trail := echo.Meta(r, lower(in), func(s string) []byte {
		b, _ := tri.DecodeBinaryHeader(s)
		return b
	})
	return m, errors.Join(tri.SetHeader(ctx, canonical(head)), tri.SetTrailer(ctx, canonical(trail)))
}

func lower(h http.Header) map[string][]string {
	m := map[string][]string{}
	for k, v := range h {
		m[strings.ToLower(k)] = v
	}
	return m
}

func canonical(m map[string][]string) http.Header {
	h := http.Header{}
	for k, vs := range m {
		for _, v := range vs {
			h.Add(k, v)
		}
	}
	return h
}

// By hand, what protoc-gen-go-triple would generate.

type handler interface {
	Say(context.Context, *echopb.SayRequest) (*echopb.SayReply, error)
	Collect(context.Context, *tri.ClientStream) (*echopb.CollectReply, error)
	Expand(context.Context, *echopb.ExpandRequest, *tri.ServerStream) error
	Chat(context.Context, *tri.BidiStream) error
	Fail(context.Context, *echopb.FailRequest) (*echopb.SayReply, error)
	Sleep(context.Context, *echopb.SleepRequest) (*echopb.SayReply, error)
	Meta(context.Context, *echopb.MetaRequest) (*echopb.MetaReply, error)
}

func unary[Q, R any](name string, f func(handler, context.Context, *Q) (*R, error)) common.MethodInfo {
	return common.MethodInfo{
		Name:        name,
		Type:        constant.CallUnary,
		ReqInitFunc: func() any { return new(Q) },
		MethodFunc: func(ctx context.Context, args []any, h any) (any, error) {
			r, err := f(h.(handler), ctx, args[0].(*Q))
			if err != nil {
				return nil, err
			}
			return tri.NewResponse(r), nil
		},
	}
}

func serviceInfo() *common.ServiceInfo {
	same := func(s any) any { return s }
	return &common.ServiceInfo{
		InterfaceName: echo.Name,
		ServiceType:   (*handler)(nil),
		Methods: []common.MethodInfo{
			unary("Say", handler.Say),
			unary("Fail", handler.Fail),
			unary("Sleep", handler.Sleep),
			unary("Meta", handler.Meta),
			{
				Name: "Collect", Type: constant.CallClientStream, StreamInitFunc: same,
				MethodFunc: func(ctx context.Context, args []any, h any) (any, error) {
					r, err := h.(handler).Collect(ctx, args[0].(*tri.ClientStream))
					if err != nil {
						return nil, err
					}
					return tri.NewResponse(r), nil
				},
			},
			{
				Name: "Expand", Type: constant.CallServerStream, StreamInitFunc: same,
				ReqInitFunc: func() any { return new(echopb.ExpandRequest) },
				MethodFunc: func(ctx context.Context, args []any, h any) (any, error) {
					return nil, h.(handler).Expand(ctx, args[0].(*echopb.ExpandRequest), args[1].(*tri.ServerStream))
				},
			},
			{
				Name: "Chat", Type: constant.CallBidiStream, StreamInitFunc: same,
				MethodFunc: func(ctx context.Context, args []any, h any) (any, error) {
					return nil, h.(handler).Chat(ctx, args[0].(*tri.BidiStream))
				},
			},
		},
	}
}
