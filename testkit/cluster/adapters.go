package cluster

import (
	"context"
	"path/filepath"

	"troupe/messages"
	"troupe/testkit"
)

// Adapters are the adapters that ship with the model.
var Adapters = []string{"psalms", "proverbs", "shout"}

// WithAdapters assigns the adapters to the requests in turn. Every fourth request gets none.
func WithAdapters(requests []Request) []Request {
	for i := range requests {
		if n := i % (len(Adapters) + 1); n < len(Adapters) {
			requests[i].Model = Adapters[n]
		}
	}
	return requests
}

// RegisterAdapters registers the adapters. The model must be deployed.
func (c *Cluster) RegisterAdapters(ctx context.Context) error {
	for _, name := range Adapters {
		req := &messages.RegisterAdapterRequest{AnyBase: true, Adapter: &messages.AdapterSpec{
			Name: name, Model: ModelName, Path: filepath.Join(testkit.Model(), "adapters", name),
		}}
		if err := Until(ctx, func() error {
			return c.Call(ctx, "adapters.register", req, &messages.RegisterAdapterResponse{})
		}); err != nil {
			return err
		}
	}
	return nil
}
