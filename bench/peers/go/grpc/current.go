//go:build !debian

package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// message is EchoMsg of bench/proto/echo.proto: bytes in field 1. What is well known needs no generated code.
type message = wrapperspb.BytesValue

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())
