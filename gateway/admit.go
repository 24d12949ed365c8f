package gateway

import (
	"context"
	"time"
)

// admit takes a place for a request, or refuses it. The time of the request begins here, when its
// body has arrived: a client that sends none takes no place.
func (g *Gateway) admit(_ context.Context, gen *generation) error {
	client, weight := gen.info.client()
	if err := g.cfg.Quotas.enter(client); err != nil {
		return err
	}
	g.metrics.inFlight.Inc()
	gen.admitted, gen.client, gen.weight = true, client, weight
	gen.began = time.Now()
	gen.deadline = gen.began.Add(gen.req.Timeout)
	gen.exchange.admitted(gen)
	return nil
}
