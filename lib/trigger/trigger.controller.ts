import { applyDecorators, Body, Controller, Headers, Param, Post, Query, Res, UseGuards, VERSION_NEUTRAL, type CanActivate, type Type } from '@nestjs/common';
import { Deliveries } from '../operations/deliveries.service.js';
import type { Delivered } from '../operations/delivered.js';
import { refusalOf, statusOf } from './trigger-answer.js';
import { readTriggerRequest, type TriggerHeaders } from './trigger-request.js';

/** Of what a response has in Express and in Fastify alike. */
interface Response {
  status(code: number): unknown;
}

/** A controller class of its own: path and guards are a class's. */
export function triggerController(path: string, guards: readonly Type<CanActivate>[], decorators: readonly ClassDecorator[]): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(...guards)
  @applyDecorators(...decorators)
  class DistributedCronTriggerController {
    constructor(private readonly deliveries: Deliveries) {}

    @Post(':job')
    async trigger(
      @Param('job') job: string,
      @Body() body: unknown,
      @Headers() headers: TriggerHeaders,
      @Query() query: unknown,
      @Res({ passthrough: true }) response: Response,
    ): Promise<Delivered> {
      try {
        const { time, ...rest } = readTriggerRequest(body, headers, query);
        const delivered = await this.deliveries.take(job, time, rest);
        response.status(statusOf(delivered, rest.wait > 0));
        return delivered;
      } catch (error) {
        throw refusalOf(error);
      }
    }
  }
  return DistributedCronTriggerController;
}
