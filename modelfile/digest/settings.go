package digest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"troupe/modelfile"
)

// SettingsFiles are the files of a model folder, besides its weights, that determine its output,
// and their maximum sizes. Other files may change without a new revision.
var SettingsFiles = map[string]modelfile.MaxBytes{
	"config.json":            modelfile.Config,
	"generation_config.json": modelfile.Config,
	"tokenizer.json":         modelfile.Tokenizer,
	"tokenizer.model":        modelfile.Tokenizer,
	"tokenizer_config.json":  modelfile.TokenizerConfig,
	"chat_template.jinja":    modelfile.Template,
}

// Settings returns the digest of the SettingsFiles in a folder.
func Settings(roots modelfile.Roots, dir string, cache *Cache) (Sum, error) {
	var files []File
	for name, most := range SettingsFiles {
		f, err := settingFile(roots, filepath.Join(dir, name), most, cache)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return Sum{}, err
		default:
			files = append(files, f)
		}
	}
	return tree("settings", files), nil
}

// ReadSettings reads the SettingsFiles of a folder, and returns them with the digest of what it has
// read.
func ReadSettings(roots modelfile.Roots, dir string) (modelfile.Files, Sum, error) {
	all := make(modelfile.Files)
	for name, most := range SettingsFiles {
		path := filepath.Join(dir, name)
		info, err := roots.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, Sum{}, err
		}
		b, err := roots.Read(path, most)
		if err != nil {
			return nil, Sum{}, err
		}
		all[name] = modelfile.File{Content: b, Modified: info.ModTime()}
	}
	return all, SettingsOf(all), nil
}

// SettingsOf returns the digest of settings in memory.
func SettingsOf(all modelfile.Files) Sum {
	var files []File
	for name, f := range all {
		files = append(files, File{Name: name, Size: int64(len(f.Content)), Sum: Of(f.Content).Sum})
	}
	return tree("settings", files)
}

// settingFile returns the digest of one file, from the cache if possible.
func settingFile(roots modelfile.Roots, path string, most modelfile.MaxBytes, cache *Cache) (File, error) {
	began := time.Now()
	before, err := roots.Stat(path)
	if err != nil {
		return File{}, err
	}
	f := File{Name: filepath.Base(path), Size: before.Size()}
	content, known := cache.Find(path, StampOf(before))
	if !known {
		b, err := roots.Read(path, most)
		if err != nil {
			return File{}, err
		}
		content = Of(b)
		if after, err := roots.Stat(path); err != nil || StampOf(after) != StampOf(before) {
			return File{}, Changed(path)
		}
		cache.Put(path, StampOf(before), content, began)
	}
	f.Sum = content.Sum
	return f, nil
}

// Changed returns the error for a file that changed while it was read.
func Changed(path string) error {
	return fmt.Errorf("%s: the file changed while it was read; load the model again once the file is complete",
		path)
}
