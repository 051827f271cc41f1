// Package record turns a choice of cards into what is written on the pod, and back.
//
//	allocate.Choice --Annotations--> annotations of the Binding: gputopology.io/allocation, and the keys of node agents
//	bound v1.Pod   --ParseHolding--> ledger.Holding, or an error: then the pod is charged by its counts alone
//	               --ForeignHolding-> ledger.Holding of counts, for pods whose cards nobody can name
//	               --Charge-------> what the ledger is told, whatever the state of the annotations; a Recent spares it the reading
//
// # What is believed
//
// A record counts only on the pod and node that it was written for. ParseHolding refuses one that
//
//   - cannot be read (*v1alpha1.FieldError, *v1alpha1.VersionError),
//   - names another node than spec.nodeName, or stands on a pod that is not bound (*MismatchError),
//   - holds less than the pod asks for, or stands on a pod that asks for no GPU (*MismatchError),
//   - stands on a pod whose request cannot be understood (*request.InvalidError).
//
// So an edited or copied annotation cannot make cards look free.
//
// # Dialects
//
// With the stock NVIDIA device plugin the record is a plan: the kubelet picks the cards. Agents that can be told which
// cards to use read annotations of their own, which recordDialects adds to the same Binding:
//
//	hami         hami.go         HAMi's device plugin: cards, memory and compute of each container
//	volcano      volcano.go      volcano-vgpu-device-plugin: the same, app containers only, no MIG
//	koordinator  koordinator.go  koordlet's GPU hook: cards of the pod as a whole, no MIG
//
// They are written for what those agents decode, which the files state. What an agent's format cannot say is a
// *DialectError, never a weaker annotation: Check finds it before a node is chosen where it follows from the request alone,
// Annotations where it depends on the card. Agents count memory in whole MiB. Parts of a card are rounded down, so that
// what an agent hands out adds up to no more than the card, but not to 0, which agents read as "no limit".
package record
