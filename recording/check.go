package recording

import "fmt"

const maxTokens = 1 << 30

// checkSnapshot checks that names are known and sizes can be.
func (r *reader) checkSnapshot(s Snapshot) error {
	const remedy = "record again; this file was changed"
	devices, models := make(map[string]bool), make(map[string]bool)
	for _, n := range s.Nodes {
		for _, d := range n.Devices {
			devices[n.Name+"/"+d.Name] = true
			if d.MemoryBytes < 0 || !(d.KVReserve >= 0 && d.KVReserve < 1) {
				return r.wrong("nodes", fmt.Sprintf("have an impossible size of %s/%s", n.Name, d.Name), remedy)
			}
		}
	}
	for _, d := range s.Deployments {
		models[d.Name] = true
		if min(d.MaxSequences, d.MaxWaiting, d.StepTokens, d.BlockTokens, d.KVBlocks, d.ContextTokens) < 0 ||
			d.WeightBytes < 0 {
			return r.wrong("deployments", "have a negative number of "+d.Name, remedy)
		}
	}
	for _, p := range s.Replicas {
		switch {
		case !models[p.Model]:
			return r.wrong("replicas", fmt.Sprintf("have %s of model %q, which is not deployed", p.Name, p.Model),
				remedy)
		case p.Device != "" && !devices[p.Node+"/"+p.Device]:
			return r.wrong("replicas", fmt.Sprintf("have %s on %s/%s, which does not exist", p.Name, p.Node, p.Device),
				remedy)
		case p.KVBlocks < 0 || p.KVBlockBytes < 0:
			return r.wrong("replicas", "have a negative number of KV blocks of "+p.Name, remedy)
		}
	}
	return nil
}

// checkRequest checks the numbers of a request.
func (r *reader) checkRequest(q Request) error {
	const remedy = "correct or remove the line"
	for _, n := range []struct {
		key string
		is  int
	}{
		{"prompt", q.Prompt}, {"cached", q.Cached}, {"output", q.Output}, {"max_output", q.MaxOutput},
		{"block_tokens", q.BlockTokens},
	} {
		if n.is < 0 || n.is > maxTokens {
			return r.wrong("request."+n.key, fmt.Sprintf("is %d, which is no number of tokens", n.is), remedy)
		}
	}
	for _, n := range []struct {
		key string
		is  *float64
	}{{"took", &q.Took}, {"ttft", q.TTFT}, {"tpot", q.TPOT}} {
		if n.is != nil && !(*n.is >= 0 && *n.is < 1e9) {
			return r.wrong("request."+n.key, fmt.Sprintf("is %v, which is no time in seconds", *n.is), remedy)
		}
	}
	switch {
	case len(q.Blocks) > 0 && q.BlockTokens == 0:
		return r.wrong("request.block_tokens", "is missing, and there are blocks", remedy)
	case len(q.Blocks)*q.BlockTokens > q.Prompt+q.Output:
		return r.wrong("request.blocks", "have more tokens than prompt and output", remedy)
	case q.End == "":
		return r.wrong("request.end", "is missing", `write "stop", "length" or "refused"`)
	}
	return nil
}
