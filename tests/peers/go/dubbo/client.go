package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/anypb"

	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	tri "dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"

	"trirpc.test/peers/cases"
	"trirpc.test/peers/echo"
	"trirpc.test/peers/gen/echopb"
)

const healthName = "grpc.health.v1.Health"

// invoke is one unary call; head and trail may be nil.
type invoke func(ctx context.Context, service, method string, q, r any, head, trail *http.Header) error

// dubboClient makes calls through dubbo-go's whole client (cluster, filters,
// invoker) or, for Triple's own framing, through its protocol client.
type dubboClient struct {
	unary   invoke
	streams func(service string) (streams, error)
	gzip    *dubboClient
}

// streams opens streams of one service.
type streams interface {
	CallClientStream(ctx context.Context, method string, opts ...client.CallOption) (any, error)
	CallServerStream(ctx context.Context, q any, method string, opts ...client.CallOption) (any, error)
	CallBidiStream(ctx context.Context, method string, opts ...client.CallOption) (any, error)
}

// newClient is what a Dubbo application has: gRPC framing, gzip offered, three tries of each unary call.
func newClient(addr string) (dubboClient, error) {
	cli, err := client.NewClient(client.WithClientURL("tri://"+addr), client.WithClientNoCheck())
	if err != nil {
		return dubboClient{}, err
	}
	// One reference a service; each has a connection of its own.
	conns := map[string]*client.Connection{}
	dial := func(service string, methods ...string) (err error) {
		info := client.ClientInfo{InterfaceName: service, MethodNames: methods, ConnectionInjectFunc: func(any, *client.Connection) {}}
		conns[service], err = cli.DialWithInfo(service, &info, client.WithRequestTimeout(cases.Timeout))
		return err
	}
	if err := dial(echo.Name, "Say", "Collect", "Expand", "Chat", "Fail", "Sleep", "Meta"); err != nil {
		return dubboClient{}, err
	}
	conn := func(service string) (*client.Connection, error) {
		if conns[service] == nil {
			if err := dial(service, "Check", "Watch"); err != nil {
				return nil, err
			}
		}
		return conns[service], nil
	}
	return dubboClient{
		unary: func(ctx context.Context, service, method string, q, r any, head, trail *http.Header) error {
			c, err := conn(service)
			if err != nil {
				return err
			}
			// dubbo-go takes its timeout from an option, not from the context's deadline.
			deadline, _ := ctx.Deadline()
			opts := []client.CallOption{client.WithCallRequestTimeout(time.Until(deadline))}
			if head != nil {
				opts = append(opts, client.WithResponseHeader(head), client.WithResponseTrailer(trail))
			}
			return c.CallUnary(ctx, []any{q}, r, method, opts...)
		},
		streams: func(service string) (streams, error) { return conn(service) },
	}, nil
}

// newTriple speaks Triple's own framing: a bare message as body, one try a call.
func newTriple(addr string) dubboClient {
	hc := &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}}}
	through := func(opts ...tri.ClientOption) dubboClient {
		opts = append(opts, tri.WithTriple(), tri.WithReadMaxBytes(4<<20))
		of := func(service string) *tri.Client { return tri.NewClient(hc, "http://"+addr+"/"+service, opts...) }
		return dubboClient{
			unary: func(ctx context.Context, service, method string, q, r any, head, trail *http.Header) error {
				if md, ok := ctx.Value(constant.AttachmentKey).(map[string]any); ok {
					out := http.Header{}
					for k, vs := range md {
						out[k] = vs.([]string)
					}
					ctx = tri.NewOutgoingContext(ctx, out)
				}
				res := tri.NewResponse(r)
				err := of(service).CallUnary(ctx, tri.NewRequest(q), method, res)
				if err == nil && head != nil {
					*head, *trail = res.Header(), res.Trailer()
				}
				return err
			},
			streams: func(service string) (streams, error) { return tripleStreams{of(service)}, nil },
		}
	}
	c, gzip := through(), through(tri.WithSendGzip())
	c.gzip = &gzip
	return c
}

type tripleStreams struct{ c *tri.Client }

func (t tripleStreams) CallClientStream(ctx context.Context, method string, _ ...client.CallOption) (any, error) {
	return t.c.CallClientStream(ctx, method)
}

func (t tripleStreams) CallServerStream(ctx context.Context, q any, method string, _ ...client.CallOption) (any, error) {
	return t.c.CallServerStream(ctx, tri.NewRequest(q), method)
}

func (t tripleStreams) CallBidiStream(ctx context.Context, method string, _ ...client.CallOption) (any, error) {
	return t.c.CallBidiStream(ctx, method)
}

func (c dubboClient) Compressed() cases.Client {
	if c.gzip != nil {
		return *c.gzip
	}
	return c
}

func call[R any](ctx context.Context, c dubboClient, service, method string, q any) (*R, error) {
	r := new(R)
	if err := c.unary(ctx, service, method, q, r, nil, nil); err != nil {
		return nil, err
	}
	return r, nil
}

func (c dubboClient) Say(ctx context.Context, q *echopb.SayRequest) (*echopb.SayReply, error) {
	return call[echopb.SayReply](ctx, c, echo.Name, "Say", q)
}

func (c dubboClient) Fail(ctx context.Context, q *echopb.FailRequest) (*echopb.SayReply, error) {
	return call[echopb.SayReply](ctx, c, echo.Name, "Fail", q)
}

func (c dubboClient) Sleep(ctx context.Context, q *echopb.SleepRequest) (*echopb.SayReply, error) {
	return call[echopb.SayReply](ctx, c, echo.Name, "Sleep", q)
}

func (c dubboClient) Unknown(ctx context.Context, service, method string) error {
	_, err := call[echopb.SayReply](ctx, c, service, method, &echopb.SayRequest{})
	return err
}

func (c dubboClient) Health(ctx context.Context, service string) (int32, error) {
	r, err := call[healthpb.HealthCheckResponse](ctx, c, healthName, "Check", &healthpb.HealthCheckRequest{Service: service})
	return int32(r.GetStatus()), err
}

func (c dubboClient) Meta(ctx context.Context, md cases.MD, q *echopb.MetaRequest) (*echopb.MetaReply, cases.MD, cases.MD, error) {
	attachments := map[string]any{}
	for k, vs := range md {
		var out []string
		for _, v := range vs {
			if strings.HasSuffix(k, "-bin") {
				v = tri.EncodeBinaryHeader([]byte(v))
			}
			out = append(out, v)
		}
		attachments[k] = out
	}
	var head, trail http.Header
	r := new(echopb.MetaReply)
	err := c.unary(context.WithValue(ctx, constant.AttachmentKey, attachments), echo.Name, "Meta", q, r, &head, &trail)
	return r, decoded(head), decoded(trail), err
}

func (c dubboClient) Collect(ctx context.Context, rs []*echopb.SayRequest) (*echopb.CollectReply, error) {
	of, err := c.streams(echo.Name)
	if err != nil {
		return nil, err
	}
	opened, err := of.CallClientStream(ctx, "Collect")
	if err != nil {
		return nil, err
	}
	s := opened.(*tri.ClientStreamForClient)
	for _, r := range rs {
		if err := s.Send(r); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	m := new(echopb.CollectReply)
	return m, s.CloseAndReceive(tri.NewResponse(m))
}

func (c dubboClient) Expand(ctx context.Context, q *echopb.ExpandRequest, f func(*echopb.SayReply)) error {
	of, err := c.streams(echo.Name)
	if err != nil {
		return err
	}
	opened, err := of.CallServerStream(ctx, q, "Expand")
	if err != nil {
		return err
	}
	s := opened.(*tri.ServerStreamForClient)
	defer s.Close()
	for {
		m := new(echopb.SayReply)
		if !s.Receive(m) {
			return s.Err()
		}
		f(m)
	}
}

func (c dubboClient) Watch(ctx context.Context, service string) (int32, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	of, err := c.streams(healthName)
	if err != nil {
		return 0, err
	}
	opened, err := of.CallServerStream(ctx, &healthpb.HealthCheckRequest{Service: service}, "Watch")
	if err != nil {
		return 0, err
	}
	s, m := opened.(*tri.ServerStreamForClient), new(healthpb.HealthCheckResponse)
	defer s.Close()
	if !s.Receive(m) {
		return 0, s.Err()
	}
	return int32(m.GetStatus()), nil
}

type chat struct{ s *tri.BidiStreamForClient }

func (c dubboClient) Chat(ctx context.Context) (cases.Chat, error) {
	of, err := c.streams(echo.Name)
	if err != nil {
		return nil, err
	}
	opened, err := of.CallBidiStream(ctx, "Chat")
	if err != nil {
		return nil, err
	}
	return chat{opened.(*tri.BidiStreamForClient)}, nil
}

func (c chat) Send(m *echopb.SayRequest) error { return c.s.Send(m) }
func (c chat) CloseSend() error                { return c.s.CloseRequest() }
func (c chat) Recv() (*echopb.SayReply, error) {
	m := new(echopb.SayReply)
	if err := c.s.Receive(m); err != nil {
		return nil, err
	}
	return m, nil
}

func decoded(h http.Header) cases.MD {
	md := cases.MD(lower(h))
	for k, vs := range md {
		if strings.HasSuffix(k, "-bin") {
			var out []string
			for _, v := range vs {
				for one := range strings.SplitSeq(v, ",") {
					b, _ := tri.DecodeBinaryHeader(one)
					out = append(out, string(b))
				}
			}
			md[k] = out
		}
	}
	return md
}

func (dubboClient) Status(err error) cases.Status {
	e := new(tri.Error)
	if !errors.As(err, &e) {
		return cases.Status{Code: uint32(tri.CodeOf(err)), Message: fmt.Sprint(err)}
	}
	var details []*anypb.Any
	for _, d := range e.Details() {
		details = append(details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return cases.Status{Code: uint32(e.Code()), Message: e.Message(), Details: details}
}
