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
	clusterName      = "troupe"
	maxMessageBytes  = 64 << 20
	handshakeTimeout = 5 * time.Second
	// serverKeepalive is the idle time after which gRPC pings a peer, and the time it waits for the
	// answer. gRPC accepts no less.
	serverKeepalive = time.Second
)

// listen opens the listener and creates protoactor's view of the cluster. Peers that connect wait
// until serve runs.
func (l *Link) listen(ctx context.Context) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("link: %w: set another address to listen on", err)
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
	l.cluster.Remote = remote.NewRemote(l.cfg.System, cfg) // never started; the member list reads its block list
	l.cfg.System.ProcessRegistry.Address = address
	return listener, nil
}

// advertised returns the address that other nodes dial, for a listener on host and port.
func advertised(address, host string, port int) (string, error) {
	if address == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return "", fmt.Errorf("link: other nodes cannot reach %q: set the host:port to advertise", host)
		}
		address = net.JoinHostPort(host, "0")
	}
	toldHost, toldPort, err := net.SplitHostPort(address)
	if err != nil || toldHost == "" {
		return "", fmt.Errorf("link: cannot advertise %q: it must be host:port", address)
	}
	if toldPort == "0" {
		toldPort = strconv.Itoa(port)
	}
	return net.JoinHostPort(toldHost, toldPort), nil
}

// serve accepts peers until Stop.
func (l *Link) serve(listener net.Listener) {
	options := []grpc.ServerOption{
		grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(maxMessageBytes), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverKeepalive, Timeout: serverKeepalive}),
	}
	if l.cfg.ServerTLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(l.cfg.ServerTLS)))
	}
	l.server = grpc.NewServer(options...)
	remote.RegisterRemotingServer(l.server, service{link: l})
	l.goRun(func() { _ = l.server.Serve(listener) })
}
