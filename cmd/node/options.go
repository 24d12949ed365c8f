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

	"troupe/core/kv"
	"troupe/cuda/driver"
	"troupe/messages"
)

// Options are the options of "troupe up", from flags, environment and file in this order of
// precedence. An empty field is not set. Each field is documented in optionDocs under its yaml key.
type Options struct {
	Name     string `yaml:"name" validate:"omitempty,name"`
	Data     string `yaml:"data" type:"path"`
	HTTP     string `yaml:"http" validate:"omitempty,listen"`
	LogLevel string `yaml:"log_level" validate:"omitempty,level"`
	Try      string `yaml:"try"`

	DrainTimeout string `yaml:"drain_timeout" validate:"omitempty,duration"`
	DrainGrace   string `yaml:"drain_grace" validate:"omitempty,duration"`

	Devices          string `yaml:"devices" validate:"omitempty,devices"`
	SimulatedDevices string `yaml:"simulated_devices" validate:"omitempty,simulated"`
	KVReserve        string `name:"kv-reserve" yaml:"kv_reserve" validate:"omitempty,reserve"`
	CUBLAS           string `name:"cublas" yaml:"cublas"`

	StepTimeout    string `yaml:"step_timeout" validate:"omitempty,duration"`
	HungTimeout    string `yaml:"hung_timeout" validate:"omitempty,duration"`
	CanaryInterval string `yaml:"canary_interval" validate:"omitempty,duration"`

	KVDRAM      string `name:"kv-dram" yaml:"kv_dram" validate:"omitempty,tiersize"`
	KVNVMe      string `name:"kv-nvme" yaml:"kv_nvme" validate:"omitempty,tiersize"`
	KVNVMePath  string `name:"kv-nvme-path" yaml:"kv_nvme_path" type:"path"`
	KVRemote    string `name:"kv-remote" yaml:"kv_remote" validate:"omitempty,tiersize"`
	KVWatermark string `name:"kv-watermark" yaml:"kv_watermark" validate:"omitempty,share"`
	KVRestore   string `name:"kv-restore" yaml:"kv_restore" validate:"omitempty,restore"`
	KVPolicy    string `name:"kv-policy" yaml:"kv_policy" validate:"omitempty,policy"`

	ModelRoots string `name:"model-roots" yaml:"model_roots" validate:"omitempty,roots"`
	// AdapterDRAM has no effect: adapters share WeightsDRAM. It is still accepted.
	AdapterDRAM   string `name:"adapter-dram" yaml:"adapter_dram" validate:"omitempty,size"`
	WeightsDRAM   string `name:"weights-dram" yaml:"weights_dram" validate:"omitempty,size"`
	WeightsImages string `name:"weights-images" yaml:"weights_images" validate:"omitempty,size"`

	Join              string `yaml:"join" validate:"omitempty,urls"`
	NATSListen        string `yaml:"nats_listen" validate:"omitempty,listen"`
	NATSRoutes        string `yaml:"nats_routes" validate:"omitempty,urls"`
	NATSClusterListen string `yaml:"nats_cluster_listen" validate:"omitempty,listen"`
	ClusterListen     string `yaml:"cluster_listen" validate:"omitempty,listen"`
	DataListen        string `yaml:"data_listen" validate:"omitempty,listen"`
	Advertise         string `yaml:"advertise" validate:"omitempty,host"`

	TLSCert    string `yaml:"tls_cert" type:"path" validate:"omitempty,file"`
	TLSKey     string `yaml:"tls_key" type:"path" validate:"omitempty,file"`
	TLSCA      string `name:"tls-ca" yaml:"tls_ca" type:"path" validate:"omitempty,file"`
	TLSRevoked string `yaml:"tls_revoked" type:"path" validate:"omitempty,file"`

	NATSCreds         string `yaml:"nats_creds" type:"path" validate:"omitempty,file"`
	NATSNkey          string `yaml:"nats_nkey" type:"path" validate:"omitempty,file"`
	NATSUsers         string `yaml:"nats_users" type:"path" validate:"omitempty,file"`
	NATSInboxPrefixes string `yaml:"nats_inbox_prefixes" validate:"omitempty,prefixes"`
	NATSTrustAccounts *bool  `yaml:"nats_trust_accounts" negatable:""`

	APIKeys                   string `yaml:"api_keys" type:"path" validate:"omitempty,file"`
	HTTPTLSCert               string `name:"http-tls-cert" yaml:"http_tls_cert" type:"path" validate:"omitempty,file"`
	HTTPTLSKey                string `name:"http-tls-key" yaml:"http_tls_key" type:"path" validate:"omitempty,file"`
	HTTPBehindTLS             *bool  `name:"http-behind-tls" yaml:"http_behind_tls" negatable:""`
	HTTPConns                 string `name:"http-connections" yaml:"http_connections" validate:"omitempty,count"`
	HTTPConnectionsPerAddress string `yaml:"http_connections_per_address" validate:"omitempty,count"`
	HTTPMemory                string `name:"http-body-memory" yaml:"http_body_memory" validate:"omitempty,size"`
	MetricsListen             string `yaml:"metrics_listen" validate:"omitempty,listen"`
	AllowedHosts              string `yaml:"allowed_hosts" validate:"omitempty,hosts"`
	AllowedOrigins            string `yaml:"allowed_origins" validate:"omitempty,origins"`
	TrustedProxies            string `yaml:"trusted_proxies" validate:"omitempty,networks"`
	AuditLog                  string `yaml:"audit_log" type:"path"`
	Insecure                  *bool  `yaml:"insecure" negatable:""`
}

const (
	defaultHTTP        = "127.0.0.1:8000"
	defaultNATS        = "127.0.0.1:4222"
	defaultNATSCluster = "6222"
	defaultDrain       = "30s"
	defaultGrace       = 5 * time.Second
	loopbackHost       = "127.0.0.1"
)

// withDefaults returns o with its empty fields taken from below.
func (o Options) withDefaults(below Options) Options {
	to, from := reflect.ValueOf(&o).Elem(), reflect.ValueOf(below)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return o
}

// absolutePaths resolves relative paths against base.
func (o *Options) absolutePaths(base string) {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); v.Type().Field(i).Tag.Get("type") == "path" && f.String() != "" {
			f.SetString(absolute(base, f.String()))
		}
	}
}

// settings are the complete and consistent options, with the deployments and adapters of the file.
type settings struct {
	Options
	given        Options // set by flag, environment or file; a default may move to a free port or folder
	Deployments  []*messages.DeploymentSpec
	Adapters     []*messages.RegisterAdapterRequest
	byClass      []string     // deployments of the file whose priority is a class of requests
	config       string       // path of the file; empty if none
	notes        []string     // for the banner: where the node deviates from a default
	httpListener net.Listener // for HTTP; set if this process picked the port
}

// mergeSources checks single values and merges flags and environment with the file at path.
func mergeSources(flags Options, path string) (settings, error) {
	if err := checkFlags(flags); err != nil {
		return settings{}, err
	}
	file, err := readFile(path)
	s := settings{
		config: path, given: flags.withDefaults(file.Options),
		Deployments: file.specs(), Adapters: file.adapters(), byClass: file.byClass(),
	}
	if err == nil {
		err = file.checkAdapters(path, s.given.Join != "" || s.given.NATSRoutes != "")
	}
	return s, err
}

// resolve checks and completes the options. It refuses settings that expose the node.
func resolve(flags Options, path string) (settings, error) {
	s, err := resolveUnchecked(flags, path)
	if err != nil {
		return s, err
	}
	return s, s.checkSecurity()
}

// resolveUnchecked is resolve without the security checks, which "troupe doctor" reports itself.
func resolveUnchecked(flags Options, path string) (settings, error) {
	s, err := mergeSources(flags, path)
	if err != nil {
		return s, err
	}
	if err := s.checkConflicts(); err != nil {
		return s, err
	}
	s.Options = s.given.withDefaults(Options{
		Name: machineName(), HTTP: defaultHTTP, LogLevel: "info", DrainTimeout: defaultDrain,
		Devices: autoDevices, CUBLAS: driver.AnyBLAS,
		KVWatermark: defaultWatermark(), KVRestore: string(kv.RestoreAuto), KVPolicy: kv.DefaultPolicy,
	})
	if err := s.setListenAddresses(); err != nil {
		return s, err
	}
	if s.Data == "" {
		if s.Data, err = defaultData(s.Name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// setListenAddresses fills in the listen addresses that are not set, so that the other nodes reach
// this one.
func (s *settings) setListenAddresses() error {
	host, err := s.listenHost()
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
	return s.checkAddresses()
}

// drainTimeout is how long running requests may take to finish.
func (s settings) drainTimeout() time.Duration {
	d, _ := time.ParseDuration(s.DrainTimeout) // validated with the other options
	return d
}

// drainGrace is the part of drainTimeout in which the node still accepts new requests.
func (s settings) drainGrace() time.Duration {
	if s.DrainGrace == "" {
		return min(defaultGrace, s.drainTimeout()/2)
	}
	d, _ := time.ParseDuration(s.DrainGrace) // validated with the other options
	return d
}

func (s settings) insecure() bool { return s.Insecure != nil && *s.Insecure }

// machineName returns the first label of the host name, or "node" if that is not a valid node name.
func machineName() string {
	host, _ := os.Hostname()
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	if checkName(label) != nil {
		return "node"
	}
	return label
}

// defaultData returns the data folder of the node with this name.
func defaultData(name string) (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home folder for the data folder: %w; set --data", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "troupe", name), nil
}
