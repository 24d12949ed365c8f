package recording

import "troupe/workload"

// Workload returns the requests that were served, as they can be simulated: those that ended with a refusal before
// they had any output are left out, and counted. The prompts are known by the hashes of their blocks.
func (r *Recording) Workload() (requests []workload.Request, refused int) {
	for _, q := range r.Requests {
		if q.End == Refused && q.Output == 0 {
			refused++
			continue
		}
		requests = append(requests, workload.Request{
			At: Duration(q.At), Model: q.Model, Adapter: q.Adapter, Client: q.Client,
			Prompt: q.Prompt, Output: q.Output, Prefix: q.Blocks, PrefixBlock: q.BlockTokens,
		})
	}
	return requests, refused
}
