package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rs/zerolog"
)

// securityFindings returns what in the settings lets others in: findings that are bad keep a node from
// starting, the others are warnings. With --insecure all are warnings.
func (s settings) securityFindings() []finding {
	all := append(s.exposedListeners(), s.permissionFindings()...)
	if os.Geteuid() == 0 {
		all = append(
			all,
			finding{
				"user",
				stateWarning,
				"the node runs as root, which it does not need",
				"run it as a user of its own that may use the GPUs",
			},
		)
	}
	if s.insecure() {
		for i := range all {
			all[i].State = stateWarning
		}
	}
	return all
}

// refuse returns the first finding that keeps a node from starting.
func (s settings) checkSecurity() error {
	for _, f := range s.securityFindings() {
		if f.State == stateFix {
			return fmt.Errorf("%s; %s", f.Text, f.Remedy)
		}
	}
	return nil
}

// warn logs what should be mended.
func (s settings) logFindings(log zerolog.Logger) {
	for _, f := range s.securityFindings() {
		log.Warn().Str("check", f.Check).Str("remedy", f.Remedy).Msg(f.Text)
	}
}

// checkSetup says what "troupe up" refuses or warns about.
func checkSetup(_ context.Context, s settings) []finding {
	if all := s.securityFindings(); len(all) > 0 {
		return all
	}
	return []finding{{"set-up", stateOK, "no client is let in unknown, and no key can be changed by others", ""}}
}

// exposedListeners finds addresses that others reach without being known, or on which secrets can be read.
func (s settings) exposedListeners() (all []finding) {
	web, byTLS := beyondLoopback(s.HTTP), s.HTTPTLSCert != "" || s.HTTPBehindTLS != nil && *s.HTTPBehindTLS
	switch {
	case web && s.APIKeys == "":
		all = append(all, exposedAddress("--http", s.HTTP, "is reached from other machines, and everybody there could use the models",
			`give keys out with --api-keys ("troupe keys new" makes one)`, defaultHTTP))
	case web && !byTLS:
		all = append(all, exposedAddress("--http", s.HTTP, "takes API keys from other machines over plain HTTP, where others can read them",
			"serve HTTPS with --http-tls-cert and --http-tls-key, give --http-behind-tls if a proxy in front has TLS", defaultHTTP))
	}
	if s.MetricsListen != "" && beyondLoopback(s.MetricsListen) && s.APIKeys == "" {
		all = append(all, finding{"exposed", stateFix,
			fmt.Sprintf("--metrics-listen %s is reached from other machines, and everyone there could read the names of the models", s.MetricsListen),
			fmt.Sprintf(`give keys out with --api-keys ("troupe keys new --admin" makes one), listen on %s, or say --insecure`, loopbackHost)})
	}
	for _, l := range s.nodeListeners() {
		if beyondLoopback(l.addr) && s.TLSCert == "" {
			all = append(all, exposedAddress(l.flag, l.addr, "is reached from other machines, and everybody there could pass for a node",
				`give certificates with --tls-cert, --tls-key and --tls-ca ("troupe certs" makes them)`, loopbackHost))
		}
	}
	if s.NATSListen != "" && beyondLoopback(s.NATSListen) && s.TLSCert != "" && s.NATSUsers == "" {
		all = append(all, exposedAddress("--nats-listen", s.NATSListen,
			"is reached from other machines, and every certificate of the CA, a client's too, may do everything there",
			`say who may do what with --nats-users and --nats-nkey ("troupe keys nkey" makes one)`, loopbackHost))
	}
	return all
}

// open is the finding that an address lets others in.
func exposedAddress(flag, address, what, remedy, instead string) finding {
	return finding{"exposed", stateFix, fmt.Sprintf("%s %s %s", flag, address, what),
		fmt.Sprintf("%s, listen on %s, or say --insecure", remedy, instead)}
}
