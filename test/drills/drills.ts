import { flush } from './flush.drill.js';
import { freeze } from './freeze.drill.js';
import type { Drill } from './harness/drill.js';
import { killStorm } from './kill-storm.drill.js';
import { ledgerStall, ledgerStop, redisRestart, redisStall, slowNetwork } from './outages.drill.js';
import { rollingDeploy } from './rolling-deploy.drill.js';

export const DRILLS: readonly Drill[] = [
  ...[rollingDeploy, flush, killStorm, freeze, ledgerStop],
  ...[redisRestart, redisStall, ledgerStall, slowNetwork],
] as readonly Drill[];
