package membership

import (
	"net"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// Description is the content of this node's record, which the other nodes read.
type Description struct {
	Address       string // address of its HTTP server
	DataAddress   string
	NATSURL       string // URL of its embedded server; empty: none
	Advertise     string // host that other nodes connect to, if an address has none
	Version       string
	Started       time.Time
	GPUs          []string
	InboxPrefixes func() []string
}

// Fill fills in the record of this node.
func (d Description) Fill(m *messages.Member) {
	m.HttpUrl, m.DataAddress, m.Version = "http://"+Advertised(d.Address, d.Advertise), d.DataAddress, d.Version
	m.Started = timestamppb.New(d.Started)
	if d.NATSURL != "" {
		m.NatsUrl = d.NATSURL
	}
	m.InboxPrefixes = d.InboxPrefixes()
	m.Gpus = d.GPUs
}

// Advertised returns an address in the form in which other nodes can reach it: an unspecified host
// is replaced with the given one.
func Advertised(address, host string) string {
	if own, port, err := net.SplitHostPort(address); err == nil && host != "" {
		if ip := net.ParseIP(own); own == "" || ip != nil && ip.IsUnspecified() {
			return net.JoinHostPort(host, port)
		}
	}
	return address
}
