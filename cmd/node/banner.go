package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"troupe/node"
)

// printBanner prints the addresses of the node and commands to try next.
func printBanner(w io.Writer, s settings, node *node.Node) {
	url, nats := "http://"+s.dialAddr(node.HTTPAddr()), s.Join
	if s.HTTPTLSCert != "" {
		url = "https://" + s.dialAddr(node.HTTPAddr())
	}
	if nats == "" {
		nats = node.NATSURL()
	}
	fmt.Fprintf(w, `Node %s is up.

  HTTP  %s   OpenAI API, /tree, /metrics
  NATS  %s   micro service "troupe"
  data  %s
  KV    %s

`, s.Name, url, nats, s.Data, strings.Join(append([]string{"GPU memory"}, node.TierDetails()...), "; then "))
	for _, note := range s.notes {
		fmt.Fprintf(w, "%s\n\n", note)
	}
	client := "nats -s " + nats + s.natsFlags()
	fmt.Fprint(w, "Try next, in another terminal:\n\n")
	if len(s.Deployments) == 0 {
		fmt.Fprintf(w, `  %s req troupe.v1.models.deploy \
    '{"deployment": {"name": "my-model", "path": "/folder/of/my-model"}}'
`, client)
	} else {
		model := s.Deployments[0].GetName()
		fmt.Fprintf(w, `  curl %s/v1/completions%s -H 'Content-Type: application/json' \
    -d '{"model": "%s", "prompt": "In the beginning", "max_tokens": 32}'
  %s req --wait-for-empty troupe.v1.infer.%s \
    '{"prompt": "In the beginning", "max_tokens": 32}'
`, url, s.curlFlags(), model, client, model)
	}
	fmt.Fprintf(w, "  %s req troupe.v1.models.list '{}'\n  %s tree --nats %s%s\n\n", client, os.Args[0], nats,
		s.loginFlags())
}

// dialAddr returns a listen address as clients dial it: an unspecified host, such as 0.0.0.0, is
// replaced.
func (s settings) dialAddr(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	if net.ParseIP(host).IsUnspecified() {
		host = cmp.Or(s.Advertise, loopbackHost)
	}
	return net.JoinHostPort(host, port)
}

// natsFlags returns the credentials of this node as flags of the nats command.
func (s settings) natsFlags() string {
	return s.fileFlags("tlscert", "tlskey", "tlsca", "creds", "nkey")
}

// loginFlags returns the credentials of this node as flags of the troupe commands.
func (s settings) loginFlags() string {
	return s.fileFlags("tls-cert", "tls-key", "tls-ca", "nats-creds", "nats-nkey")
}

// fileFlags returns the set credentials under the given flag names.
func (s settings) fileFlags(names ...string) (all string) {
	for i, file := range []string{s.TLSCert, s.TLSKey, s.TLSCA, s.NATSCreds, s.NATSNkey} {
		if file != "" {
			all += fmt.Sprintf(" --%s %s", names[i], file)
		}
	}
	return all
}

// curlFlags returns the header with the API key, if the node requires one.
func (s settings) curlFlags() string {
	if s.APIKeys != "" {
		return ` -H "Authorization: Bearer $KEY"`
	}
	return ""
}
