package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rs/zerolog"
)

// securityFindings returns the settings that give others access. Those with stateFix keep a node from
// starting; with --insecure all are warnings.
func (s settings) securityFindings() []finding {
	all := append(s.exposedListeners(), s.permissionFindings()...)
	if os.Geteuid() == 0 {
		all = append(all, warn("user", "the node runs as root, which it does not need",
			"run it as its own user with access to the GPUs"))
	}
	if s.insecure() {
		for i := range all {
			all[i].State = stateWarning
		}
	}
	return all
}

// checkSecurity returns the first finding that keeps a node from starting.
func (s settings) checkSecurity() error {
	for _, f := range s.securityFindings() {
		if f.State == stateFix {
			return fmt.Errorf("%s; %s", f.Text, f.Remedy)
		}
	}
	return nil
}

// logFindings logs the security findings as warnings.
func (s settings) logFindings(log zerolog.Logger) {
	for _, f := range s.securityFindings() {
		log.Warn().Str("check", f.Check).Str("remedy", f.Remedy).Msg(f.Text)
	}
}

// checkSetup reports the settings that "troupe up" refuses or warns about.
func checkSetup(_ context.Context, s settings) []finding {
	if all := s.securityFindings(); len(all) > 0 {
		return all
	}
	return []finding{pass("set-up", "no access without credentials, and no other user can change keys")}
}

// exposedListeners finds addresses beyond loopback without authentication or encryption.
func (s settings) exposedListeners() (all []finding) {
	web := beyondLoopback(s.HTTP)
	byTLS := s.HTTPTLSCert != "" || s.HTTPBehindTLS != nil && *s.HTTPBehindTLS
	switch {
	case web && s.APIKeys == "":
		all = append(all, exposedAddress("--http", s.HTTP, "lets every machine that reaches it use the models",
			`require API keys with --api-keys ("troupe keys new" creates one)`, defaultHTTP))
	case web && !byTLS:
		all = append(all, exposedAddress("--http", s.HTTP, "takes API keys from other machines unencrypted",
			"serve HTTPS with --http-tls-cert and --http-tls-key, set --http-behind-tls if a proxy in front has TLS",
			defaultHTTP))
	}
	if s.MetricsListen != "" && beyondLoopback(s.MetricsListen) && s.APIKeys == "" {
		all = append(all, exposedAddress("--metrics-listen", s.MetricsListen,
			"lets every machine that reaches it read the names of the models",
			`require API keys with --api-keys ("troupe keys new --admin" creates one)`, loopbackHost))
	}
	for _, l := range s.nodeListeners() {
		if beyondLoopback(l.addr) && s.TLSCert == "" {
			all = append(all, exposedAddress(l.flag, l.addr, "lets every machine that reaches it pass for a node",
				`require certificates with --tls-cert, --tls-key and --tls-ca ("troupe certs" creates them)`,
				loopbackHost))
		}
	}
	if s.NATSListen != "" && beyondLoopback(s.NATSListen) && s.TLSCert != "" && s.NATSUsers == "" {
		all = append(all, exposedAddress("--nats-listen", s.NATSListen,
			"lets every client with a certificate of the CA do everything",
			`set users and permissions with --nats-users and --nats-nkey ("troupe keys nkey" creates one)`,
			loopbackHost))
	}
	return all
}

// exposedAddress returns the finding that a listen address gives access to others.
func exposedAddress(flag, address, problem, remedy, instead string) finding {
	return fail("exposed", fmt.Sprintf("%s %s %s", flag, address, problem),
		fmt.Sprintf("%s, listen on %s, or set --insecure", remedy, instead))
}
