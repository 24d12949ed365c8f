package link

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	clusterName     = "troupe"
	maxMessageBytes = 64 << 20
	handshakeWithin = 5 * time.Second
	// A peer that says nothing is asked after keepalive; a silent stream ends after twice that. gRPC takes no less.
	serverKeepalive = time.Second
)

// listen takes the address, and makes protoactor's view of the cluster with it. Peers that connect wait for serve.
func (l *Link) listen(ctx context.Context) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("link: %w: give another address for nodes to listen on", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	host, _, _ := net.SplitHostPort(l.cfg.Listen)
	address, err := advertised(l.cfg.Advertise, host, port)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	cfg := remote.Configure(host, port, remote.WithAdvertisedHost(address))
	l.cluster = cluster.New(l.cfg.System, cluster.Configure(clusterName, l.cfg.Provider, l.cfg.Lookup, cfg))
	l.cluster.Remote = remote.NewRemote(l.cfg.System, cfg) // never started: the member list asks it who is blocked
	l.cfg.System.ProcessRegistry.Address = address
	return listener, nil
}

// advertised is what others are told, where we listen on a host and port.
func advertised(address, host string, port int) (string, error) {
	if address == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return "", fmt.Errorf("link: other nodes can not reach %q: say which host:port to advertise to them", host)
		}
		address = net.JoinHostPort(host, "0")
	}
	toldHost, toldPort, err := net.SplitHostPort(address)
	if err != nil || toldHost == "" {
		return "", fmt.Errorf("link: %q can not be advertised: it must be host:port", address)
	}
	if toldPort == "0" {
		toldPort = strconv.Itoa(port)
	}
	return net.JoinHostPort(toldHost, toldPort), nil
}

// serve reads what peers write, until Stop.
func (l *Link) serve(listener net.Listener) {
	options := []grpc.ServerOption{
		grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(maxMessageBytes), grpc.ConnectionTimeout(handshakeWithin),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverKeepalive, Timeout: serverKeepalive}),
	}
	if l.cfg.ServerTLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(l.cfg.ServerTLS)))
	}
	l.server = grpc.NewServer(options...)
	remote.RegisterRemotingServer(l.server, service{link: l})
	l.running.Go(func() { _ = l.server.Serve(listener) })
}
