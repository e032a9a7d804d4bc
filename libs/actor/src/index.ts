export { ActorModule } from './actor.module.js';
export { ActorSupervisor } from './actor-supervisor.js';
export { PartitionFiller, TurnHandler } from './turn-handler.js';
export { PodPresence } from './pod-presence.js';
