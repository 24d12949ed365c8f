package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"troupe/cluster/control"
	"troupe/messages"
)

// Options are what "node up" can be told by flag, by environment and by file, in this order of precedence.
// Empty means not given.
type Options struct {
	Name       string `yaml:"name" env:"TROUPE_NAME" placeholder:"NAME" help:"Name of this node (default: this machine's)." validate:"omitempty,name"`
	Data       string `yaml:"data" env:"TROUPE_DATA" placeholder:"DIR" type:"path" help:"Folder for what must survive a restart (default: $$XDG_DATA_HOME/troupe/NAME)."`
	HTTP       string `yaml:"http" env:"TROUPE_HTTP" placeholder:"ADDR" help:"Where to serve the OpenAI API (default: ${http}). Port 0 picks a free one." validate:"omitempty,listen"`
	NATSListen string `yaml:"nats_listen" env:"TROUPE_NATS_LISTEN" placeholder:"ADDR" help:"Where to serve NATS (default: ${nats})." validate:"omitempty,listen"`
	Devices    string `yaml:"devices" env:"TROUPE_DEVICES" placeholder:"auto|host:COUNTxSIZE" help:"GPUs: host:2x512MiB is two software GPUs; auto is one with half of the machine's memory (default: auto)." validate:"omitempty,devices"`
	LogLevel   string `yaml:"log_level" env:"TROUPE_LOG_LEVEL" placeholder:"L" help:"debug, info, warn or error (default: info)." validate:"omitempty,level"`
	Try        string `yaml:"try" env:"TROUPE_TRY" placeholder:"PROMPT" help:"Once the first deployment serves, stream a completion of PROMPT to the terminal."`
}

const (
	defaultHTTP = "127.0.0.1:8000"
	defaultNATS = "127.0.0.1:4222"
)

func helpVars() kong.Vars { return kong.Vars{"http": defaultHTTP, "nats": defaultNATS} }

// or fills what o does not say from below.
func (o Options) or(below Options) Options {
	return Options{
		Name:       cmp.Or(o.Name, below.Name),
		Data:       cmp.Or(o.Data, below.Data),
		HTTP:       cmp.Or(o.HTTP, below.HTTP),
		NATSListen: cmp.Or(o.NATSListen, below.NATSListen),
		Devices:    cmp.Or(o.Devices, below.Devices),
		LogLevel:   cmp.Or(o.LogLevel, below.LogLevel),
		Try:        cmp.Or(o.Try, below.Try),
	}
}

// settings are the options complete and in agreement, with what the file says to deploy.
type settings struct {
	Options
	Deployments []*messages.DeploymentSpec
}

// settle combines what was given by flag or environment with what the file says.
func settle(given Options, path string) (settings, error) {
	if err := checkFlags(given); err != nil {
		return settings{}, err
	}
	file, err := readFile(path)
	if err != nil {
		return settings{}, err
	}
	o := given.or(file.Options).or(Options{
		Name: machineName(), HTTP: defaultHTTP, NATSListen: defaultNATS, Devices: "auto", LogLevel: "info",
	})
	if o.Data == "" {
		if o.Data, err = defaultData(o.Name); err != nil {
			return settings{}, err
		}
	}
	s := settings{Options: o, Deployments: file.specs()}
	return s, s.agree()
}

// agree checks what no option shows alone.
func (s settings) agree() error {
	if _, port, _ := net.SplitHostPort(s.HTTP); s.HTTP == s.NATSListen && port != "0" {
		return fmt.Errorf("--http and --nats-listen are both %s; give them different ports", s.HTTP)
	}
	if s.Try != "" && len(s.Deployments) == 0 {
		return fmt.Errorf("--try needs a model; list one under deployments: in the file that --config names")
	}
	for _, d := range s.Deployments {
		if _, err := control.Normalize(d); err != nil {
			return err
		}
	}
	return nil
}

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
