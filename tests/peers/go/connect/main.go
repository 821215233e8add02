// connect-peer is a connect-go server and client of the Echo service: the
// server answers gRPC and Connect, the client speaks the one asked for.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"golang.org/x/net/http2"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/anypb"

	"trirpc.test/peers/cases"
	"trirpc.test/peers/echo"
	"trirpc.test/peers/gen/echopb"
	"trirpc.test/peers/gen/echopb/echopbconnect"
)

// limit is that of every peer; connect-go itself has none.
const limit = 4 << 20

func main() {
	if len(os.Args) < 2 || os.Args[1] != "client" {
		addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
		flag.Parse()
		log.Fatal(serve(*addr))
	}
	args, wire := os.Args[2:], connect.WithGRPC()
	traits := cases.Traits{}
	if len(args) > 0 && args[0] == "connect" {
		args, wire = args[1:], connect.WithClientOptions()
		traits.NoStreams = "trirpc serves no streams of Connect: 415, which the client tells as UNKNOWN"
	}
	o := cases.Parse(args)
	hc := &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}}}
	c := newClient(hc, "http://"+o.Addr, wire, connect.WithReadMaxBytes(limit))
	os.Exit(cases.Run(c, o, traits))
}

func serve(addr string) error {
	mux := http.NewServeMux()
	mux.Handle(echopbconnect.NewEchoHandler(server{}, connect.WithReadMaxBytes(limit)))
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(echo.Name)))
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	echo.Listening(l.Addr())
	return (&http.Server{Handler: mux, Protocols: &p}).Serve(l)
}

func lower(h http.Header) map[string][]string {
	m := map[string][]string{}
	for k, v := range h {
		m[strings.ToLower(k)] = v
	}
	return m
}

func put(h http.Header, m map[string][]string) {
	for k, vs := range m {
		for _, v := range vs {
			h.Add(k, v)
		}
	}
}

type server struct{}

func (server) Say(_ context.Context, r *connect.Request[echopb.SayRequest]) (*connect.Response[echopb.SayReply], error) {
	return connect.NewResponse(echo.Say(r.Msg)), nil
}

func (server) Collect(_ context.Context, s *connect.ClientStream[echopb.SayRequest]) (*connect.Response[echopb.CollectReply], error) {
	var c echo.Collector
	for s.Receive() {
		c.Add(s.Msg())
	}
	return connect.NewResponse(c.Reply()), s.Err()
}

func (server) Expand(ctx context.Context, r *connect.Request[echopb.ExpandRequest], s *connect.ServerStream[echopb.SayReply]) error {
	if err := echo.Expand(ctx, r.Msg, s.Send); err != nil {
		return err
	}
	if r.Msg.EndCode != 0 {
		return connect.NewError(connect.Code(r.Msg.EndCode), errors.New(r.Msg.EndMessage))
	}
	return nil
}

func (server) Chat(_ context.Context, s *connect.BidiStream[echopb.SayRequest, echopb.SayReply]) error {
	for {
		m, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, ok := echo.ChatFailure(m); ok {
			return connect.NewError(echo.ChatFailCode, errors.New(text))
		}
		if err := s.Send(echo.Say(m)); err != nil {
			return err
		}
	}
}

func (server) Fail(_ context.Context, r *connect.Request[echopb.FailRequest]) (*connect.Response[echopb.SayReply], error) {
	if r.Msg.Code == 0 {
		return connect.NewResponse(&echopb.SayReply{}), nil
	}
	e := connect.NewError(connect.Code(r.Msg.Code), errors.New(r.Msg.Message))
	for _, a := range r.Msg.Details {
		d, err := connect.NewErrorDetail(a)
		if err != nil {
			return nil, err
		}
		e.AddDetail(d)
	}
	return nil, e
}

func (server) Sleep(ctx context.Context, r *connect.Request[echopb.SleepRequest]) (*connect.Response[echopb.SayReply], error) {
	m, err := echo.Sleep(ctx, r.Msg)
	return connect.NewResponse(m), err
}

func (server) Meta(_ context.Context, r *connect.Request[echopb.MetaRequest]) (*connect.Response[echopb.MetaReply], error) {
	m, head, trail := echo.Meta(r.Msg, lower(r.Header()), func(s string) []byte {
		b, _ := connect.DecodeBinaryHeader(s)
		return b
	})
	res := connect.NewResponse(m)
	put(res.Header(), head)
	put(res.Trailer(), trail)
	return res, nil
}

type client struct {
	e       echopbconnect.EchoClient
	gzip    echopbconnect.EchoClient
	unknown func(service, method string) *connect.Client[echopb.SayRequest, echopb.SayReply]
	check   *connect.Client[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse]
	watch   *connect.Client[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse]
}

func newClient(hc *http.Client, base string, opts ...connect.ClientOption) client {
	return client{
		e:    echopbconnect.NewEchoClient(hc, base, opts...),
		gzip: echopbconnect.NewEchoClient(hc, base, append(opts, connect.WithSendGzip())...),
		unknown: func(service, method string) *connect.Client[echopb.SayRequest, echopb.SayReply] {
			return connect.NewClient[echopb.SayRequest, echopb.SayReply](hc, base+"/"+service+"/"+method, opts...)
		},
		check: connect.NewClient[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](hc, base+healthpb.Health_Check_FullMethodName, opts...),
		watch: connect.NewClient[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](hc, base+healthpb.Health_Watch_FullMethodName, opts...),
	}
}

func msg[T any](r *connect.Response[T], err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return r.Msg, nil
}

func (c client) Compressed() cases.Client {
	c.e = c.gzip
	return c
}

func (c client) Say(ctx context.Context, r *echopb.SayRequest) (*echopb.SayReply, error) {
	return msg(c.e.Say(ctx, connect.NewRequest(r)))
}

func (c client) Collect(ctx context.Context, rs []*echopb.SayRequest) (*echopb.CollectReply, error) {
	s := c.e.Collect(ctx)
	for _, r := range rs {
		if err := s.Send(r); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return msg(s.CloseAndReceive())
}

func (c client) Expand(ctx context.Context, r *echopb.ExpandRequest, f func(*echopb.SayReply)) error {
	s, err := c.e.Expand(ctx, connect.NewRequest(r))
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Receive() {
		f(s.Msg())
	}
	return s.Err()
}

type chat struct {
	*connect.BidiStreamForClient[echopb.SayRequest, echopb.SayReply]
}

func (c chat) CloseSend() error                { return c.CloseRequest() }
func (c chat) Recv() (*echopb.SayReply, error) { return c.Receive() }

func (c client) Chat(ctx context.Context) (cases.Chat, error) { return chat{c.e.Chat(ctx)}, nil }

func (c client) Fail(ctx context.Context, r *echopb.FailRequest) (*echopb.SayReply, error) {
	return msg(c.e.Fail(ctx, connect.NewRequest(r)))
}

func (c client) Sleep(ctx context.Context, r *echopb.SleepRequest) (*echopb.SayReply, error) {
	return msg(c.e.Sleep(ctx, connect.NewRequest(r)))
}

func (c client) Meta(ctx context.Context, md cases.MD, r *echopb.MetaRequest) (*echopb.MetaReply, cases.MD, cases.MD, error) {
	q := connect.NewRequest(r)
	for k, vs := range md {
		for _, v := range vs {
			if strings.HasSuffix(k, "-bin") {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			q.Header().Add(k, v)
		}
	}
	res, err := c.e.Meta(ctx, q)
	if err != nil {
		return nil, nil, nil, err
	}
	return res.Msg, decoded(res.Header()), decoded(res.Trailer()), nil
}

func decoded(h http.Header) cases.MD {
	md := cases.MD(lower(h))
	for k, vs := range md {
		if strings.HasSuffix(k, "-bin") {
			var out []string
			for _, v := range vs {
				for one := range strings.SplitSeq(v, ",") {
					b, _ := connect.DecodeBinaryHeader(one)
					out = append(out, string(b))
				}
			}
			md[k] = out
		}
	}
	return md
}

func (c client) Unknown(ctx context.Context, service, method string) error {
	_, err := c.unknown(service, method).CallUnary(ctx, connect.NewRequest(&echopb.SayRequest{}))
	return err
}

func (c client) Health(ctx context.Context, service string) (int32, error) {
	r, err := msg(c.check.CallUnary(ctx, connect.NewRequest(&healthpb.HealthCheckRequest{Service: service})))
	return int32(r.GetStatus()), err
}

func (c client) Watch(ctx context.Context, service string) (int32, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.watch.CallServerStream(ctx, connect.NewRequest(&healthpb.HealthCheckRequest{Service: service}))
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if !s.Receive() {
		return 0, s.Err()
	}
	return int32(s.Msg().GetStatus()), nil
}

func (c client) Status(err error) cases.Status {
	e := new(connect.Error)
	if !errors.As(err, &e) {
		return cases.Status{Code: uint32(connect.CodeOf(err)), Message: err.Error()}
	}
	var details []*anypb.Any
	for _, d := range e.Details() {
		details = append(details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return cases.Status{Code: uint32(e.Code()), Message: e.Message(), Details: details}
}
