package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
	"troupe/modelfile"
	"troupe/node"
)

type upCommand struct {
	Config  string `env:"TROUPE_CONFIG" placeholder:"FILE" type:"path" help:"YAML file with any of these options, named alike (nats_listen), and deployments."`
	Options `embed:""`
}

func (upCommand) Help() string {
	return `A flag beats the environment (TROUPE_HTTP for --http), which beats the file, which beats the default.

What was deployed is kept in the data folder and is served again after a restart. SIGTERM drains: /ready answers 503,
requests are served for --drain-grace, and those under way finish until --drain-timeout. SIGHUP does the same, Ctrl-C without the grace; a second one ends at once.
Where name, folder or ports are not given and another node on this machine has them, the next ones are taken, and that node is joined.
Logs go to standard error, as JSON unless that is a terminal.

Examples:

  troupe up                                      all GPUs of this machine, or one software GPU; nothing deployed yet
  troupe up --devices host:2x512MiB              two software GPUs
  troupe up --config examples/quickstart.yaml    with deployments, as the file says
  troupe up                                      in another terminal: a second node, which joins the first
  troupe up --join nats://10.0.0.7:4222 --tls-cert n2.crt --tls-key n2.key --tls-ca ca.crt
                                               join the nodes of other machines
  troupe up --kv-dram 32GiB --kv-nvme 200GiB --kv-nvme-path /mnt/nvme/kv
                                               room for KV blocks beside GPU memory: prompts seen before are computed again less often
  TROUPE_HTTP=:8080 troupe up --api-keys keys.yaml --http-tls-cert h.crt --http-tls-key h.key
                                               reachable from other machines, port 8080

A file:

  devices: host:2x512MiB
  deployments:
    - name: kjv-2m                             what clients put into "model"
      path: ../models/kjv-2m                   relative to this file
      replicas: 2                              min_replicas and max_replicas: within which the planner may change it
      priority: standard                       batch, standard or interactive
      max_sequences: 64                        running at once in a replica
      max_waiting: 1024                        queued beyond that, then status 429
  adapters:
    - name: psalms                             what clients put into "model", or kjv-2m:psalms
      model: kjv-2m                            the deployment that it adapts
      path: ../models/kjv-2m/adapters/psalms   a PEFT folder, the same on every node
      pinned: true                             kept on the device of every replica`
}

// Run starts a node and returns when it has been told to end, and has.
func (u upCommand) Run(c console) error {
	s, err := settle(u.Options, u.Config)
	if err != nil {
		return &usageError{err}
	}
	lock, err := s.claim()
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx := untilSignal()
	log := newLog(c, s)
	s.warn(log)
	node.SetGCPercent()
	node, err := abandonable(ctx, func() (*node.Node, error) { return s.start(ctx, log) })
	if ctx.Err() != nil && node == nil {
		fmt.Fprintln(c.out, "\nTold to end while starting.")
		return nil
	}
	if err != nil {
		return err
	}
	welcome(c.out, s, node)
	if s.Try != "" {
		if err := firstCompletion(ctx, c.out, s, node); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("first completion failed; the node goes on serving")
		}
	}
	<-ctx.Done()
	fmt.Fprintln(c.out, "\nDraining. Ctrl-C again ends at once.")
	return drain(node, graceFor(context.Cause(ctx), s.grace()), s.drain())
}

// start starts a node. What is open when that fails is closed.
func (s *settings) start(ctx context.Context, log zerolog.Logger) (*node.Node, error) {
	cfg, err := s.node(ctx, log)
	if err != nil {
		return nil, err
	}
	node, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return node, nil
}

// node reads what the files hold, settles where to listen, and returns what the node is started with.
func (s *settings) node(ctx context.Context, log zerolog.Logger) (cfg node.Config, err error) {
	cfg = node.Config{
		Name: s.Name, DataDir: s.Data, DrainTimeout: s.drain(), Advertise: s.Advertise, Deployments: s.Deployments, Adapters: s.Adapters,
		AdapterHostBytes: bytesOf(s.AdapterDRAM), AuditLog: s.AuditLog, Log: log, Version: version(),
	}
	if cfg.Instance, err = instance(s.Data); err != nil {
		return cfg, err
	}
	if cfg.Roots, err = modelfile.NewRoots(folders(s.ModelRoots)...); err != nil {
		return cfg, err
	}
	if err := s.secure(&cfg); err != nil {
		return cfg, err
	}
	login, err := cfg.Login.Options()
	if err != nil {
		return cfg, err
	}
	if err := s.place(ctx, login); err != nil {
		return cfg, err
	}
	cfg.HTTP, cfg.HTTPListener, cfg.ClusterListen, cfg.DataListen = s.HTTP, s.web, s.ClusterListen, s.DataListen
	cfg.Join, cfg.NATSListen, cfg.NATSUsers = list(s.Join), s.NATSListen, s.NATSUsers
	cfg.NATSInboxPrefixes = words(s.NATSInboxPrefixes)
	cfg.TrustAccounts = s.NATSTrustAccounts != nil && *s.NATSTrustAccounts
	cfg.NATSRoutes, cfg.NATSClusterListen = list(s.NATSRoutes), s.NATSClusterListen
	cfg.WebConfig = s.webConfig()
	s.tiers(&cfg)
	if err := s.devices(&cfg); err != nil {
		return cfg, err
	}
	if err := s.reserve(&cfg); err != nil {
		return cfg, errors.Join(err, closeAll(cfg.GPUs))
	}
	return cfg, nil
}

// secure reads certificates, keys and credentials.
func (s *settings) secure(cfg *node.Config) (err error) {
	if s.TLSCert != "" {
		if cfg.TLS, err = security.Load(security.Files{Cert: s.TLSCert, Key: s.TLSKey, CA: s.TLSCA, Revoked: s.TLSRevoked}, cfg.Log); err != nil {
			return err
		}
		for _, host := range s.hosts() {
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
	cfg.TrustedProxies, _ = parseNetworks(s.TrustedProxies) // checked with the other options
	if s.APIKeys != "" {
		cfg.Keys, err = apikey.Open(s.APIKeys, cfg.Log)
	}
	return err
}

// newLog writes JSON, or readable lines where a person looks on.
func newLog(c console, s settings) zerolog.Logger {
	level, _ := zerolog.ParseLevel(s.LogLevel) // checked with the other options
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
