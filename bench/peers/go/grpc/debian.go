//go:build debian

package main

import (
	"github.com/golang/protobuf/ptypes/wrappers"
	"google.golang.org/grpc"
)

type message = wrappers.BytesValue

var plaintext = grpc.WithInsecure()
