package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/cost"
	"troupe/cuda"
)

// networkShare is the share of the time for measurements of the network, beside that of all others.
const networkShare = 0.15

// receiveNetwork receives what another machine sends until the context ends.
func receiveNetwork(ctx context.Context, c console, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return &usageError{fmt.Errorf("--network-listen %q is not an address that another machine can dial; write it "+
			"like 10.0.0.2:7000", listen)}
	}
	r, err := bulkbench.Receive(listen, "")
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Fprintf(c.out, "Measure the network on another machine with\n\n  troupe calibrate --network %s\n\n"+
		"Ctrl-C ends this.\n", r.Ticket())
	<-ctx.Done()
	return nil
}

// measureNetwork returns the cost of bytes to the machine whose ticket is set; nil: none is.
func (k calibrateCommand) measureNetwork(ctx context.Context, d cuda.Device, show *progress) (
	*cost.Transferred, error,
) {
	if k.Network == "" {
		return nil, nil
	}
	ticket, err := bulkbench.ParseTicket(k.Network)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	all, err := bulkbench.Network(ctx, ticket, time.Duration(networkShare*float64(k.Time)), func(share float64) {
		show.report("the network to "+ticket.GetAddress(), networkShare*share)
	})
	if ctx.Err() != nil {
		return nil, errors.New("calibration stopped; nothing was written")
	}
	if err != nil {
		return nil, fmt.Errorf("network to %s: %w; check that troupe calibrate --network-listen runs there",
			ticket.GetAddress(), err)
	}
	line, residuals, err := cost.FitLinear(all)
	origin := cost.Origin{Measured: began.UTC().Format(time.RFC3339), On: describeMachine(d) + ", to " +
		ticket.GetAddress()}
	return &cost.Transferred{Linear: line, Residuals: residuals, Origin: origin}, err
}
