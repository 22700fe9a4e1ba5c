"""A user's app: two models and some tasks, as the manual has them."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from celery import shared_task
from django.db import models

from scheduling import Cancel, Retry, Snooze, current_job, job


class Invoice(models.Model):
    """Nothing here forbids a second one."""

    customer = models.CharField(max_length=50)
    key = models.CharField(max_length=200, default="")
    written_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager[Invoice]] = models.Manager()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return self.customer


class Line(models.Model):
    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="lines")
    text = models.CharField(max_length=50, unique=True)

    objects: ClassVar[models.Manager[Line]] = models.Manager()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return self.text


MODELS = (Invoice, Line)
calls: list[str] = []  # to the world outside


@job(name="tests.shop.charge")
def charge(customer: str) -> None:
    run = current_job()
    with run.commit():
        invoice = Invoice.objects.create(customer=customer, key=run.idempotency_key)
        Line.objects.create(invoice=invoice, text=str(run.fire_id))


@job(name="tests.shop.charge_in_the_open")
def charge_in_the_open(customer: str) -> None:
    """Its row stands, whatever becomes of the run."""
    Invoice.objects.create(customer=customer)


@job(name="tests.shop.find_or_charge")
def find_or_charge(customer: str) -> None:
    """In the open as well, but it looks first."""
    Invoice.objects.get_or_create(key=current_job().idempotency_key, defaults={"customer": customer})


@job(name="tests.shop.fail")
def fail(customer: str) -> None:
    Invoice.objects.create(customer=customer)
    raise ValueError(f"no money from {customer}")


@job(name="tests.shop.fail_once")
def fail_once(customer: str) -> None:
    if current_job().attempt == 1:
        raise Retry("come back", in_=timedelta(minutes=5))
    charge_in_the_open.run(customer)


@job(name="tests.shop.snooze_once")
def snooze_once(customer: str) -> None:
    if current_job().fence == 1:
        raise Snooze(timedelta(hours=1))
    charge_in_the_open.run(customer)


@job(name="tests.shop.cancel")
def cancel(customer: str) -> None:
    raise Cancel(f"{customer} is gone")


@job(name="tests.shop.pay")
def pay(customer: str) -> None:
    """Calls the world once, whatever happens, and notes it in the open."""

    def call() -> str:
        calls.append(customer)
        return "paid"

    receipt = current_job().step("pay", call, in_doubt=lambda: "paid")
    with current_job().commit():
        Invoice.objects.create(customer=customer, key=receipt)


@shared_task(name="tests.shop.plain")
def plain(customer: str) -> None:
    Invoice.objects.create(customer=customer)
