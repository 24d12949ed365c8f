// Package hostcache provides the actor of the images of weights and adapters in a node's host memory. It owns the
// decision which images there are: core/hostcache decides, and perform carries out its effects. The
// memory belongs to an object above the actors (Images), and is registered for all devices of the
// node.
//
// Parent: the node. Accepts: UseImage, EndImageUse, GetHostCache; FindImage and SendImage from other nodes;
// ApplyDeployment, RemoveDeployment and ListDeploymentsResult from the deployments group. Answers:
// UseImageResult, once for each UseImage, and before that one that says that an adapter's load has to
// wait; HostCacheStatus; ImageFound and SendImageResult. Sends:
// GetDeploymentSpec.
//
// # Tickets
//
// A load of weights, which is a job of a gpu actor, uses an image with a ticket: it reads the image or
// fills it. The load ends its ticket at the object, whatever happens to the actors meanwhile, and the
// object then notifies this actor, which passes the outcome to its machine. So memory is never freed
// while a load uses it. A ticket that no load claims in time ends by itself.
//
// # Adapters
//
// All replicas of a node share the images of adapters, one for each content. Slots of adapter pools ask
// for them by name, with a request ID of their own, which is also the ID of the ticket. A request waits
// while another load fills the image. Without room, the adapter is read from its files for each load; the
// event adapter.uncached and the status say so. Every second, images of adapters that the catalogue does
// not have any longer are dropped once nothing uses them.
//
// # Pins
//
// The image of a deployment that is wanted at level parked is pinned, by the digest of its files. The
// deployments group sends what is stored, so that pins are desired state.
//
// # Disk
//
// With Disk, each image is also written to a file, by a job that reads the host memory with a ticket. Weights
// on a device that have no image in host memory are written from there, by a job that reads them like a load
// of another node. A second machine decides which files there are. Loads open them without asking, and the
// actor learns every second, or when a ticket ends, which ones were used or found damaged.
//
// Weights that are parked, and have no room in host memory, go to the disk. If their file is there, the answer
// says so; if it is being written, the request waits; else its ticket is for writing the file. A ticket counts
// as room on the disk until it has ended, over restarts of the actor too. The files of parked deployments that
// have no image in host memory are pinned.
//
// # Other nodes
//
// A load that wants an image of another node asks the host caches of all nodes (OtherNodes). It fetches
// the description of the image first, which has config and tokenizer, and checks that by digest. Then the
// node sends the parts that are missing over the data plane. What is neither in its host cache nor on its
// disk may be on one of its devices (Devices): it is then copied to host memory part by part, while the
// weights are kept from being freed, even if the node has no room for images at all. A receiver that takes
// nothing for a while loses its transfer; a load that gets nothing uses its next source.
//
// # State
//
// A crash loses requests in flight and nothing else: the loads do without an image if they get no
// answer. The node group restarts the actor. Started takes over the images and tickets of the object,
// and asks the deployments group for what is stored; a group that starts later sends it unasked. Images
// in memory are lost with the process. A file that an earlier incarnation had begun to write is dropped.
package hostcache
