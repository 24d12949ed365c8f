package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"troupe/actors/kvblock"
	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/core/units"
	"troupe/cuda/driver"
	"troupe/messages"
)

// Options are what "troupe up" can be told by flag, by environment and by file, in this order of precedence.
// Empty means not given.
type Options struct {
	Name         string `yaml:"name" env:"TROUPE_NAME" placeholder:"NAME" help:"Name of this node (default: this machine's)." validate:"omitempty,name"`
	Data         string `yaml:"data" env:"TROUPE_DATA" placeholder:"DIR" type:"path" help:"Folder for what must survive a restart (default: $$XDG_DATA_HOME/troupe/NAME)."`
	HTTP         string `yaml:"http" env:"TROUPE_HTTP" placeholder:"ADDR" help:"Where to serve the OpenAI API (default: ${http}, or the next free port). Port 0 picks any." validate:"omitempty,listen"`
	NATSListen   string `yaml:"nats_listen" env:"TROUPE_NATS_LISTEN" placeholder:"ADDR" help:"Where to serve NATS (default: ${nats}; where a Troupe is there already, it is joined)." validate:"omitempty,listen"`
	Devices      string `yaml:"devices" env:"TROUPE_DEVICES" placeholder:"auto|host:COUNTxSIZE" help:"GPUs: host:2x512MiB is two software GPUs; auto is all that this machine has, or else one software GPU with half of its memory (default: auto)." validate:"omitempty,devices"`
	KVReserve    string `name:"kv-reserve" yaml:"kv_reserve" env:"TROUPE_KV_RESERVE" placeholder:"SHARE[,GPU=SHARE...]" help:"Share of each GPU's memory that is kept for KV blocks and divided among its replicas: 0.3, or 0.3,gpu-1=0.5 (default: ${kvreserve})." validate:"omitempty,reserve"`
	CUBLAS       string `name:"cublas" yaml:"cublas" env:"TROUPE_CUBLAS" placeholder:"auto|off|FILE" help:"Who multiplies matrices on GPUs: the libcublas.so of this machine where there is one (auto), the program's own kernels (off), or the library at FILE. Tokens of one replica do not depend on the batch with either (default: auto)."`
	DrainTimeout string `yaml:"drain_timeout" env:"TROUPE_DRAIN_TIMEOUT" placeholder:"TIME" help:"How long requests may finish when the node is told to end (default: ${drain})." validate:"omitempty,duration"`
	DrainGrace   string `yaml:"drain_grace" env:"TROUPE_DRAIN_GRACE" placeholder:"TIME" help:"Of this, how long new requests are still served, while /ready answers 503: longer than balancers take to notice (default: ${grace}; half of --drain-timeout at most)." validate:"omitempty,duration"`
	LogLevel     string `yaml:"log_level" env:"TROUPE_LOG_LEVEL" placeholder:"L" help:"debug, info, warn or error (default: info)." validate:"omitempty,level"`
	Try          string `yaml:"try" env:"TROUPE_TRY" placeholder:"PROMPT" help:"Once the first deployment serves, stream a completion of PROMPT to the terminal."`

	Join              string `group:"Cluster" yaml:"join" env:"TROUPE_JOIN" placeholder:"URL,..." help:"Join the Troupe at these NATS servers, and serve no NATS here." validate:"omitempty,urls"`
	NATSRoutes        string `group:"Cluster" yaml:"nats_routes" env:"TROUPE_NATS_ROUTES" placeholder:"URL,..." help:"Make the NATS server of this node one of a NATS cluster: the --nats-cluster-listen of the others." validate:"omitempty,urls"`
	NATSClusterListen string `group:"Cluster" yaml:"nats_cluster_listen" env:"TROUPE_NATS_CLUSTER_LISTEN" placeholder:"ADDR" help:"Where the NATS servers of other nodes connect (default with --nats-routes: port ${natscluster})." validate:"omitempty,listen"`
	ClusterListen     string `group:"Cluster" yaml:"cluster_listen" env:"TROUPE_CLUSTER_LISTEN" placeholder:"ADDR" help:"Where the actors of other nodes connect (default: any port, where those of --join reach it)." validate:"omitempty,listen"`
	DataListen        string `group:"Cluster" yaml:"data_listen" env:"TROUPE_DATA_LISTEN" placeholder:"ADDR" help:"Where other nodes send KV blocks (default: likewise)." validate:"omitempty,listen"`
	Advertise         string `group:"Cluster" yaml:"advertise" env:"TROUPE_ADVERTISE" placeholder:"HOST" help:"The host under which other nodes reach this one (default: where it listens)." validate:"omitempty,host"`

	KVDRAM      string `group:"KV tiers" name:"kv-dram" yaml:"kv_dram" env:"TROUPE_KV_DRAM" placeholder:"SIZE" help:"Host memory for KV blocks that leave the GPUs: 8GiB, or 0 for none. Models of all sizes share it; a block may be an eighth of it, and 65MiB at most (default: an eighth of what is free, ${kvdram} at most)." validate:"omitempty,room"`
	KVNVMe      string `group:"KV tiers" name:"kv-nvme" yaml:"kv_nvme" env:"TROUPE_KV_NVME" placeholder:"SIZE" help:"Likewise, space on a local disk. What is there outlives the node (default: none)." validate:"omitempty,room"`
	KVNVMePath  string `group:"KV tiers" name:"kv-nvme-path" yaml:"kv_nvme_path" env:"TROUPE_KV_NVME_PATH" placeholder:"FILE" type:"path" help:"The file for that (default: kv in the data folder)."`
	KVRemote    string `group:"KV tiers" name:"kv-remote" yaml:"kv_remote" env:"TROUPE_KV_REMOTE" placeholder:"SIZE" help:"KV blocks that may be on their way here from other nodes at once; 0: none are fetched from others, nor sent to them (default: ${kvremote})." validate:"omitempty,room"`
	KVWatermark string `group:"KV tiers" name:"kv-watermark" yaml:"kv_watermark" env:"TROUPE_KV_WATERMARK" placeholder:"SHARE" help:"How full GPU memory and tiers may be before blocks leave ahead of need (default: ${kvwatermark})." validate:"omitempty,share"`
	KVRestore   string `group:"KV tiers" name:"kv-restore" yaml:"kv_restore" env:"TROUPE_KV_RESTORE" placeholder:"auto|always" help:"When KV blocks are restored from lower tiers and other nodes: auto, if that is faster than recomputing them; always, whenever they are found (default: ${kvrestore})." validate:"omitempty,restore"`
	KVPolicy    string `group:"KV tiers" name:"kv-policy" yaml:"kv_policy" env:"TROUPE_KV_POLICY" placeholder:"NAME" help:"Which blocks leave first: ${kvpolicies} (default: ${kvpolicy})." validate:"omitempty,policy"`

	AdapterDRAM string `group:"Adapters" name:"adapter-dram" yaml:"adapter_dram" env:"TROUPE_ADAPTER_DRAM" placeholder:"SIZE" help:"Host memory, for each replica, in which adapters stay that were read from disk: 1GiB, or 0 for none (default: ${adapterdram})." validate:"omitempty,size"`

	ModelRoots string `group:"Models" name:"model-roots" yaml:"model_roots" env:"TROUPE_MODEL_ROOTS" placeholder:"DIR,..." help:"Folders that models and adapters may be read from, after links are resolved (default: any)." validate:"omitempty,roots"`

	TLSCert           string `group:"Security" yaml:"tls_cert" env:"TROUPE_TLS_CERT" placeholder:"FILE" type:"path" help:"Certificate of this node, for other nodes and for NATS; \"troupe certs\" makes one." validate:"omitempty,file"`
	TLSKey            string `group:"Security" yaml:"tls_key" env:"TROUPE_TLS_KEY" placeholder:"FILE" type:"path" help:"Its key." validate:"omitempty,file"`
	TLSCA             string `group:"Security" name:"tls-ca" yaml:"tls_ca" env:"TROUPE_TLS_CA" placeholder:"FILE" type:"path" help:"The CA that other nodes must have their certificates of." validate:"omitempty,file"`
	NATSCreds         string `group:"Security" yaml:"nats_creds" env:"TROUPE_NATS_CREDS" placeholder:"FILE" type:"path" help:"Credentials of this node for NATS: a JWT and its key, as nsc makes them." validate:"omitempty,file"`
	NATSNkey          string `group:"Security" yaml:"nats_nkey" env:"TROUPE_NATS_NKEY" placeholder:"FILE" type:"path" help:"Or its nkey seed; \"troupe keys nkey\" makes one." validate:"omitempty,file"`
	NATSUsers         string `group:"Security" yaml:"nats_users" env:"TROUPE_NATS_USERS" placeholder:"FILE" type:"path" help:"Who may use the NATS server of this node: the authorization or accounts of a nats-server configuration." validate:"omitempty,file"`
	APIKeys           string `group:"Security" yaml:"api_keys" env:"TROUPE_API_KEYS" placeholder:"FILE" type:"path" help:"Who may use which models over HTTP; \"troupe keys new\" makes a key." validate:"omitempty,file"`
	HTTPTLSCert       string `group:"Security" name:"http-tls-cert" yaml:"http_tls_cert" env:"TROUPE_HTTP_TLS_CERT" placeholder:"FILE" type:"path" help:"Serve HTTPS with this certificate." validate:"omitempty,file"`
	HTTPTLSKey        string `group:"Security" name:"http-tls-key" yaml:"http_tls_key" env:"TROUPE_HTTP_TLS_KEY" placeholder:"FILE" type:"path" help:"Its key." validate:"omitempty,file"`
	HTTPConns         string `group:"Security" name:"http-connections" yaml:"http_connections" env:"TROUPE_HTTP_CONNECTIONS" placeholder:"N" help:"HTTP connections that may be open; beyond that, probes alone are answered (default: half of the file descriptors, 8192 at most)." validate:"omitempty,count"`
	HTTPConnsAddress  string `group:"Security" name:"http-connections-per-address" yaml:"http_connections_per_address" env:"TROUPE_HTTP_CONNECTIONS_PER_ADDRESS" placeholder:"N" help:"Of these, how many one address may have (default: a quarter)." validate:"omitempty,count"`
	HTTPMemory        string `group:"Security" name:"http-body-memory" yaml:"http_body_memory" env:"TROUPE_HTTP_BODY_MEMORY" placeholder:"SIZE" help:"Memory for the bodies of all requests together; a request that finds none gets status 503 (default: 256MiB)." validate:"omitempty,size"`
	MetricsListen     string `group:"Security" yaml:"metrics_listen" env:"TROUPE_METRICS_LISTEN" placeholder:"ADDR" help:"Serve /metrics, /live, /health and /ready here too: on loopback without a key, else with an admin's (default: nowhere)." validate:"omitempty,listen"`
	AllowedHosts      string `group:"Security" yaml:"allowed_hosts" env:"TROUPE_ALLOWED_HOSTS" placeholder:"NAME,..." help:"Further names under which HTTP clients reach this node. Without --api-keys a node on loopback answers to localhost, addresses and its own names alone." validate:"omitempty,hosts"`
	AllowedOrigins    string `group:"Security" yaml:"allowed_origins" env:"TROUPE_ALLOWED_ORIGINS" placeholder:"ORIGIN,..." help:"Pages that browsers may use the API from, like https://chat.example (default: none but the node's own)." validate:"omitempty,origins"`
	TLSRevoked        string `group:"Security" yaml:"tls_revoked" env:"TROUPE_TLS_REVOKED" placeholder:"FILE" type:"path" help:"Fingerprints of certificates that are revoked; \"troupe certs --revoke\" writes them. Read again when it changes." validate:"omitempty,file"`
	HTTPBehindTLS     *bool  `group:"Security" name:"http-behind-tls" yaml:"http_behind_tls" env:"TROUPE_HTTP_BEHIND_TLS" negatable:"" help:"A proxy in front of --http has TLS, so API keys may come over plain HTTP."`
	AuditLog          string `group:"Security" yaml:"audit_log" env:"TROUPE_AUDIT_LOG" placeholder:"FILE" type:"path" help:"Append a line of JSON for each change of state, and each request that was not allowed (default: lines in the log)."`
	NATSInboxPrefixes string `group:"Security" yaml:"nats_inbox_prefixes" env:"TROUPE_NATS_INBOX_PREFIXES" placeholder:"PREFIX,..." help:"Inbox prefixes of NATS users, beside _INBOX and those in --nats-users: _INBOX_anna. One node tells the others. Requests that expect their answer elsewhere are dropped." validate:"omitempty,prefixes"`
	NATSTrustAccounts *bool  `group:"Security" yaml:"nats_trust_accounts" env:"TROUPE_NATS_TRUST_ACCOUNTS" negatable:"" help:"Take the account of NATS clients from what the server says of service imports. Only where clients have accounts of their own."`
	TrustedProxies    string `group:"Security" yaml:"trusted_proxies" env:"TROUPE_TRUSTED_PROXIES" placeholder:"CIDR,..." help:"Proxies that say in X-Forwarded-For or Forwarded for whom they ask: 10.0.0.0/8. Clients without keys are told apart by address." validate:"omitempty,networks"`
	Insecure          *bool  `group:"Security" yaml:"insecure" env:"TROUPE_INSECURE" negatable:"" help:"Listen beyond this machine without certificates or keys; use files that others can change."`
}

const (
	defaultHTTP        = "127.0.0.1:8000"
	defaultNATS        = "127.0.0.1:4222"
	defaultNATSCluster = "6222"
	defaultDrain       = "30s"
	defaultGrace       = 5 * time.Second
	defaultAdapterDRAM = "256MiB"
	thisMachine        = "127.0.0.1"
)

func helpVars() kong.Vars {
	return kong.Vars{
		"http": defaultHTTP, "nats": defaultNATS, "natscluster": defaultNATSCluster, "drain": defaultDrain, "grace": defaultGrace.String(), "adapterdram": defaultAdapterDRAM,
		"kvdram": units.FormatBytes(mostDRAM), "kvremote": units.FormatBytes(kvblock.DefaultRemoteBytes), "kvwatermark": defaultWatermark(), "kvrestore": string(kv.RestoreAuto), "kvpolicy": kv.DefaultPolicy, "kvpolicies": strings.Join(kv.PolicyNames(), ", "),
		"kvreserve": fmt.Sprint(hbm.DefaultKVReserve),
	}
}

// or fills what o does not say from below.
func (o Options) or(below Options) Options {
	to, from := reflect.ValueOf(&o).Elem(), reflect.ValueOf(below)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return o
}

// absolutePaths makes paths start at base.
func (o *Options) absolutePaths(base string) {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); v.Type().Field(i).Tag.Get("type") == "path" && f.String() != "" {
			f.SetString(absolute(base, f.String()))
		}
	}
}

// settings are the options complete and in agreement, with what the file says to deploy.
type settings struct {
	Options
	given       Options // by flag, environment or file: what is not may be chosen otherwise
	Deployments []*messages.DeploymentSpec
	Adapters    []*messages.RegisterAdapterRequest
	config      string       // the file, if there is one
	notes       []string     // what was chosen otherwise, for the reader
	web         net.Listener // at HTTP, where its port was chosen
}

// gather combines what was given by flag or environment with what the file says.
func gather(flags Options, path string) (settings, error) {
	if err := checkFlags(flags); err != nil {
		return settings{}, err
	}
	file, err := readFile(path)
	s := settings{config: path, given: flags.or(file.Options), Deployments: file.specs(), Adapters: file.adapters()}
	if err == nil {
		err = file.checkAdapters(path, s.given.Join != "" || s.given.NATSRoutes != "")
	}
	return s, err
}

// settle checks what was given, completes it, and refuses a set-up that lets others in.
func settle(flags Options, path string) (settings, error) {
	s, err := completed(flags, path)
	if err != nil {
		return s, err
	}
	return s, s.refuse()
}

// completed checks what was given, and completes it.
func completed(flags Options, path string) (settings, error) {
	s, err := gather(flags, path)
	if err != nil {
		return s, err
	}
	if err := s.clash(); err != nil {
		return s, err
	}
	s.Options = s.given.or(Options{Name: machineName(), HTTP: defaultHTTP, Devices: automatic, CUBLAS: driver.AnyBLAS, DrainTimeout: defaultDrain, LogLevel: "info", KVWatermark: defaultWatermark(), KVRestore: string(kv.RestoreAuto), KVPolicy: kv.DefaultPolicy, AdapterDRAM: defaultAdapterDRAM})
	if err := s.network(); err != nil {
		return s, err
	}
	if s.Data == "" {
		if s.Data, err = defaultData(s.Name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// network fills in where to listen. Others that are to reach this node decide it, where nobody says it.
func (s *settings) network() error {
	host, err := s.reach()
	if err != nil {
		return err
	}
	if s.Join == "" {
		s.NATSListen = cmp.Or(s.NATSListen, defaultNATS)
	}
	if s.NATSRoutes != "" {
		s.NATSClusterListen = cmp.Or(s.NATSClusterListen, net.JoinHostPort(host, defaultNATSCluster))
	}
	s.ClusterListen = cmp.Or(s.ClusterListen, net.JoinHostPort(host, "0"))
	s.DataListen = cmp.Or(s.DataListen, net.JoinHostPort(host, "0"))
	return s.reached()
}

// drain is how long requests may finish.
func (s settings) drain() time.Duration {
	d, _ := time.ParseDuration(s.DrainTimeout) // checked with the other options
	return d
}

// grace is how long new requests are served when the node is told to end.
func (s settings) grace() time.Duration {
	if s.DrainGrace == "" {
		return min(defaultGrace, s.drain()/2)
	}
	d, _ := time.ParseDuration(s.DrainGrace) // checked with the other options
	return d
}

func (s settings) insecure() bool { return s.Insecure != nil && *s.Insecure }

// machineName is the first label of the host's name, made fit to be a node's name.
func machineName() string {
	host, _ := os.Hostname()
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	if checkName(label) != nil {
		return "node"
	}
	return label
}

func defaultData(name string) (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home folder to keep data in (%w); name a folder with --data", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "troupe", name), nil
}
