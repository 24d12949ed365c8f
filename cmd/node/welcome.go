package main

import (
	"fmt"
	"io"
	"os"

	"troupe/cluster/troupe"
)

// welcome says where the node is and what to try.
func welcome(w io.Writer, s settings, node *troupe.Node) {
	url, nats := "http://"+node.HTTPAddr(), node.NATSURL()
	fmt.Fprintf(w, `Node %s is up.

  HTTP  %s   OpenAI API, /tree, /metrics
  NATS  %s   micro service "troupe"
  data  %s

Try next, in another terminal:

`, s.Name, url, nats, s.Data)
	if len(s.Deployments) == 0 {
		fmt.Fprintf(w, `  nats -s %s req troupe.v1.models.deploy \
    '{"deployment": {"name": "my-model", "path": "/folder/of/my-model"}}'
`, nats)
	} else {
		model := s.Deployments[0].GetName()
		fmt.Fprintf(w, `  curl %s/v1/completions -H 'Content-Type: application/json' \
    -d '{"model": "%s", "prompt": "In the beginning", "max_tokens": 32}'
  nats -s %s req --wait-for-empty troupe.v1.infer.%s \
    '{"prompt": "In the beginning", "max_tokens": 32}'
`, url, model, nats, model)
	}
	fmt.Fprintf(w, "  nats -s %s req troupe.v1.models.list '{}'\n  %s tree --nats %s\n\n", nats, os.Args[0], nats)
}
