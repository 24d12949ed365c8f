package gateway

import "context"

// admit takes a place for a request, or refuses it. The request's time starts here, after its body
// was read, so a client that announces a body and sends none occupies no place.
func (g *Gateway) admit(_ context.Context, gen *generation) error {
	client, weight := gen.info.client()
	if err := g.cfg.Quotas.enter(client); err != nil {
		return err
	}
	g.metrics.inFlight.Inc()
	gen.admitted, gen.client, gen.weight = true, client, weight
	gen.began = gen.rt.Now()
	gen.deadline = gen.began.Add(gen.req.Timeout)
	gen.exchange.admitted(gen)
	return nil
}
