package gateway

import (
	"slices"

	"troupe/core/backend"
	"troupe/gateway/openai"
	"troupe/messages"
)

// simulatedHeader marks the response of a simulated model, whose text nothing has computed.
const simulatedHeader = "X-Troupe-Simulated"

func engineOf(s *messages.DeploymentSpec) backend.Spec {
	return backend.SpecOf(s.GetEngine().GetKind(), s.GetEngine().GetWithout())
}

// checkCapabilities refuses a request that asks for what the backend of its model cannot do.
func checkCapabilities(req *openai.Request, adapter *messages.AdapterSpec, b backend.Spec) error {
	tokens := slices.ContainsFunc(req.Prompts, func(p openai.Prompt) bool { return p.Count() > 0 })
	for _, need := range []struct {
		asked bool
		param string
		c     backend.Capability
	}{
		{adapter != nil, "model", backend.Adapters},
		{tokens, "prompt", backend.TokenIDs},
		{req.Seed != nil, "seed", backend.Seeds},
		{req.Sampling.GetLogprobs(), "logprobs", backend.Logprobs},
	} {
		if need.asked && !b.Capabilities().Has(need.c) {
			e := openai.Refusal(messages.Reason_REASON_UNSUPPORTED, "this model is served by a backend that cannot do "+
				"that: "+backend.Missing(b.Kind, need.c))
			e.Param = &need.param
			return e
		}
	}
	return nil
}
