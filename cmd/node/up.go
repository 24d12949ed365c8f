package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
	"troupe/modelfile"
	"troupe/node"
)

type upCommand struct {
	Config  string `env:"TROUPE_CONFIG" placeholder:"FILE" type:"path" help:"${config}"`
	Options `embed:""`
}

func (upCommand) Help() string {
	return `A flag overrides its environment variable (TROUPE_HTTP for --http), which overrides the file, which
overrides the default.

Deployments are stored in the data folder and are served again after a restart. SIGTERM and SIGHUP drain the node:
/ready returns 503, new requests are served for --drain-grace, and running requests may finish until --drain-timeout.
Ctrl-C drains without the grace. A second Ctrl-C or SIGTERM exits at once.

If another node of this machine uses the default name, data folder or ports, this node takes the next free ones and
joins that node. Logs go to standard error, as JSON unless it is a terminal.

Examples:

  troupe up                                      all GPUs of this machine, or one software GPU; no deployment
  troupe up --devices host:2x512MiB              two software GPUs
  troupe up --config examples/quickstart.yaml    the options and deployments of a file
  troupe up                                      in another terminal: a second node, which joins the first
  troupe up --join nats://10.0.0.7:4222 --tls-cert n2.crt --tls-key n2.key --tls-ca ca.crt
                                                 join the nodes of other machines
  troupe up --kv-dram 32GiB --kv-nvme 200GiB --kv-nvme-path /mnt/nvme/kv
                                                 KV tiers in host memory and on disk: fewer prompts are recomputed
  TROUPE_HTTP=:8080 troupe up --api-keys keys.yaml --http-tls-cert h.crt --http-tls-key h.key
                                                 serve other machines, on port 8080

A file:

  devices: host:2x512MiB
  deployments:
    - name: kjv-2m                             the "model" of requests
      path: ../models/kjv-2m                   relative to this file
      replicas: 2                              min_replicas and max_replicas bound what the planner may set
      idle_after: 5m                           with min_replicas 0: time without a request until it sleeps
      wake_wait: 1m                            likewise: how long requests are gathered for a device in use
      priority: standard                       who gets devices first: critical, high, standard or batch
      slo: {ttft: 500ms, tpot: 50ms}           P99 that the planner aims at; absent: that of the priority
      pinned: false                            true: its replicas stay where they are
      max_sequences: 64                        running sequences per replica
      max_waiting: 1024                        queued sequences per replica; beyond that, status 429
  adapters:
    - name: psalms                             the "model" of requests, or kjv-2m:psalms
      model: kjv-2m                            the deployment that it adapts
      path: ../models/kjv-2m/adapters/psalms   a PEFT folder, the same on every node
      pinned: true                             kept on the device of every replica`
}

// Run starts a node and returns after a signal has stopped it.
func (u upCommand) Run(c console) error {
	s, err := resolve(u.Options, u.Config)
	if err != nil {
		return &usageError{err}
	}
	lock, err := s.lockDataDir()
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx := signalContext()
	log := newLog(c, s)
	s.logFindings(log)
	s.logUnused(log)
	node.SetGCPercent()
	node, err := startOrAbandon(ctx, func() (*node.Node, error) { return s.startNode(ctx, log) })
	if ctx.Err() != nil && node == nil {
		fmt.Fprintln(c.out, "\nStopped while starting.")
		return nil
	}
	if err != nil {
		return err
	}
	printBanner(c.out, s, node)
	if s.Try != "" {
		if err := firstCompletion(ctx, c.out, s, node); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("first completion failed; node keeps serving")
		}
	}
	<-ctx.Done()
	fmt.Fprintln(c.out, "\nDraining. Press Ctrl-C again to exit at once.")
	return drainNode(node, graceAfter(context.Cause(ctx), s.drainGrace()), s.drainTimeout())
}

// logUnused logs the options that have no effect any longer, or another one than they say.
func (s settings) logUnused(log zerolog.Logger) {
	if s.AdapterDRAM != "" {
		log.Warn().Str("option", "adapter_dram").Str("value", s.AdapterDRAM).
			Str("remedy", "remove it; --weights-dram sets the host memory for weights and adapters of the whole node").
			Msg("option has no effect: the replicas of a node share copies of adapters in the host cache")
	}
	for _, model := range s.byClass {
		log.Warn().Str("model", model).Str("priority", "interactive").
			Str("remedy", "set priority to high, and default_class to interactive").
			Msg("priority is the class of requests that earlier versions had there; using priority high")
	}
}

// startNode starts the node. On error it closes the GPUs that it opened.
func (s *settings) startNode(ctx context.Context, log zerolog.Logger) (*node.Node, error) {
	cfg, err := s.nodeConfig(ctx, log)
	if err != nil {
		return nil, err
	}
	node, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return node, nil
}

// nodeConfig reads the files, picks the listen addresses, opens the GPUs and returns the node's
// configuration.
func (s *settings) nodeConfig(ctx context.Context, log zerolog.Logger) (cfg node.Config, err error) {
	cfg = node.Config{
		Name: s.Name, DataDir: s.Data, DrainTimeout: s.drainTimeout(), Advertise: s.Advertise,
		Deployments: s.Deployments, Adapters: s.Adapters, Watch: s.watch(),
		AuditLog: s.AuditLog, Log: log, Version: version(),
	}
	if cfg.Instance, err = instance(s.Data); err != nil {
		return cfg, err
	}
	if cfg.Roots, err = modelfile.NewRoots(splitList(s.ModelRoots)...); err != nil {
		return cfg, err
	}
	if err := s.loadCredentials(&cfg); err != nil {
		return cfg, err
	}
	login, err := cfg.Login.Options()
	if err != nil {
		return cfg, err
	}
	if err := s.pickAddresses(ctx, login); err != nil {
		return cfg, err
	}
	cfg.HTTP, cfg.HTTPListener = s.HTTP, s.httpListener
	cfg.ClusterListen, cfg.DataListen = s.ClusterListen, s.DataListen
	cfg.Join, cfg.NATSListen, cfg.NATSUsers = urlStrings(s.Join), s.NATSListen, s.NATSUsers
	cfg.NATSInboxPrefixes = elements(s.NATSInboxPrefixes)
	cfg.TrustAccounts = s.NATSTrustAccounts != nil && *s.NATSTrustAccounts
	cfg.NATSRoutes, cfg.NATSClusterListen = urlStrings(s.NATSRoutes), s.NATSClusterListen
	cfg.WebConfig = s.webConfig()
	s.setTiers(&cfg)
	if cfg.Profiles, err = profilesIn(filepath.Join(s.Data, profilesFolder)); err != nil {
		s.addNote("%v", err)
	}
	if err := s.openDevices(&cfg); err != nil {
		return cfg, err
	}
	if err := s.setKVReserve(&cfg); err != nil {
		return cfg, errors.Join(err, closeAll(cfg.GPUs))
	}
	return cfg, nil
}

// loadCredentials loads certificates, keys and NATS credentials into cfg.
func (s *settings) loadCredentials(cfg *node.Config) (err error) {
	if s.TLSCert != "" {
		files := security.Files{Cert: s.TLSCert, Key: s.TLSKey, CA: s.TLSCA, Revoked: s.TLSRevoked}
		if cfg.TLS, err = security.Load(files, cfg.Log); err != nil {
			return err
		}
		for _, host := range s.advertisedHosts() {
			if err := cfg.TLS.CheckHost(host); err != nil {
				return fmt.Errorf("%s: %w", s.TLSCert, err)
			}
		}
	}
	cfg.Login = security.Login{TLS: cfg.TLS, Creds: s.NATSCreds, Nkey: s.NATSNkey}
	if s.HTTPTLSCert != "" {
		if cfg.HTTPTLS, err = security.HTTPS(s.HTTPTLSCert, s.HTTPTLSKey, cfg.Log); err != nil {
			return err
		}
	}
	cfg.TrustedProxies, _ = parseNetworks(s.TrustedProxies) // validated with the other options
	if s.APIKeys != "" {
		cfg.Keys, err = apikey.Open(s.APIKeys, cfg.Log)
	}
	return err
}

// newLog returns a logger that writes JSON, or readable lines to a terminal.
func newLog(c console, s settings) zerolog.Logger {
	level, _ := zerolog.ParseLevel(s.LogLevel) // validated with the other options
	out := c.log
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Str("node", s.Name).Logger()
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
